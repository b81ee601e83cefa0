"""Truth of tasks with continuous actions."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from ..capacity import capacity
from ..landscape import Landscape
from ..worlds.world import State, World, leaves

INPUTS, OUTPUTS, CHECKED = 201, 4001, 2001
"""Forces of the discretised channel, bins of its output, and forces at which the upper bound is
checked."""


def bounded_force(world: World, horizon: int, states: State) -> Landscape:
    """Empowerment of one force between -1 and 1 in Gaussian noise, bracketed; the same in every
    state.

    Given the state, the velocity after one step is a + e, and the position says nothing more of a.
    Few forces and output bins carry less than all: their certified capacity is a lower bound. The
    output density q of their best source gives the upper bound max_a KL(N(a, σ²) || q), evaluated
    at many forces; between them it is widened by the largest slope.
    """
    if horizon != 1:
        raise ValueError(f"horizon={horizon} has no such bracket; give 1")
    noise = float(world.spec()["noise"])  # pyright: ignore[reportOptionalSubscript] - a point mass has one
    forces = np.linspace(-1, 1, INPUTS)
    edges = np.linspace(-1 - 8 * noise, 1 + 8 * noise, OUTPUTS)
    levels = norm.cdf((edges[None] - forces[:, None]) / noise)
    rows = np.diff(np.concatenate([np.zeros((INPUTS, 1)), levels, np.ones((INPUTS, 1))], axis=1))
    found = capacity(rows / rows.sum(1, keepdims=True), tolerance=1e-7)
    checked = np.linspace(-1, 1, CHECKED)
    divergence = _divergence(checked, forces, found.source, noise)
    slope = float(np.abs(np.diff(divergence)).max())
    upper = float(divergence.max()) + slope
    n = len(leaves(states)[0])
    bracket = (np.full(n, value) for value in (0.5 * (found.lower + upper), found.lower, upper))
    return Landscape.of(world, horizon, states, *bracket)


def _divergence(
    means: np.ndarray, centres: np.ndarray, weights: np.ndarray, noise: float
) -> np.ndarray:
    """KL(N(m, σ²) || Σ w N(c, σ²)) for each m, by quadrature on ±10 standard deviations."""
    offsets = np.linspace(-10, 10, 2001)
    density = norm.pdf(offsets)
    density /= density.sum()
    keep = weights > 1e-15
    log_weights = np.log(weights[keep])
    values = []
    for mean in means:
        y = mean + noise * offsets
        scores = log_weights - 0.5 * ((y[:, None] - centres[None, keep]) / noise) ** 2
        mixed = np.asarray(logsumexp(scores, axis=1))
        values.append(float(density @ (-0.5 * offsets**2 - mixed)))
    return np.array(values)
