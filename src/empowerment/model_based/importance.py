"""Empowerment with a model that has a density: importance sampling (appendix B.1). All values are
in nats.

S action sequences are drawn once and only their weights are adapted, by Blahut-Arimoto steps whose
divergences come from J end states drawn for each sequence. A step costs J S² densities, or M S
where the draws hold only M different ends; they are kept where they fit into `KEPT` entries and
made again block by block where they do not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..channel import rows_of
from ..exact import check_horizon, check_states
from ..landscape import Landscape
from ..worlds.world import State, World, leaves, take

BLOCK = 2**20
"""Densities made together, 8 MiB."""
KEPT = 2**25
"""Densities kept between steps, 256 MiB."""


class Draws(NamedTuple):
    """One end state for each of n given sequences."""

    ends: np.ndarray
    """The different ends, one in each row."""
    index: np.ndarray
    """`int[n]`: which of them each draw is."""
    log_own: np.ndarray
    """`float64[n]`: ln p(s'|a) of each draw for its own sequence."""


@runtime_checkable
class Conditional(Protocol):
    """A model p(s'|a_i, s) of one state, for S given sequences."""

    @property
    def size(self) -> int:
        """S"""
        ...

    def draw(self, which: np.ndarray, rng: np.random.Generator) -> Draws:
        """An end for each of these sequences, `int[n]`."""
        ...

    def log_density(self, ends: np.ndarray) -> np.ndarray:
        """ln p(s'|a_i, s), one row for each end and one column for each sequence."""
        ...


@dataclass(frozen=True, eq=False)
class Discrete:
    """Rows of a channel matrix, `float64[S, ends]`."""

    matrix: np.ndarray

    @property
    def size(self) -> int:
        return len(self.matrix)

    def draw(self, which: np.ndarray, rng: np.random.Generator) -> Draws:
        levels, drawn = self.matrix.cumsum(axis=1), np.empty(len(which), np.intp)
        order, counts = np.argsort(which, kind="stable"), np.bincount(which, minlength=self.size)
        for row, own in zip(levels, np.split(order, counts.cumsum()[:-1]), strict=True):
            # Scaled by the last level, so that rounding leads neither beyond the row nor to an end
            # that cannot be.
            drawn[own] = np.searchsorted(row, rng.random(len(own)) * row[-1], side="right")
        ends, index = np.unique(drawn, return_inverse=True)
        return Draws(ends, index, np.log(self.matrix[which, drawn]))

    def log_density(self, ends: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.matrix[:, ends].T)


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal ends with independent parts: means and standard deviations `float64[S, parts]`.

    Noise that is correlated becomes independent in coordinates that whiten it, which changes no
    information.
    """

    means: np.ndarray
    deviations: np.ndarray

    @property
    def size(self) -> int:
        return len(self.means)

    def draw(self, which: np.ndarray, rng: np.random.Generator) -> Draws:
        noise = rng.standard_normal((len(which), self.means.shape[1]))
        log_own = -0.5 * (noise**2).sum(1) - self._log_volume()[which]
        return Draws(
            self.means[which] + self.deviations[which] * noise, np.arange(len(which)), log_own
        )

    def log_density(self, ends: np.ndarray) -> np.ndarray:
        total = np.zeros((len(ends), self.size))
        for end, mean, deviation in zip(ends.T, self.means.T, self.deviations.T, strict=True):
            total -= 0.5 * ((end[:, None] - mean) / deviation) ** 2
        return total - self._log_volume()

    def _log_volume(self) -> np.ndarray:
        return np.log(self.deviations).sum(1) + 0.5 * self.means.shape[1] * np.log(2 * np.pi)


@dataclass(frozen=True, eq=False)
class Importance:
    """The estimate with its weights, in nats."""

    nats: float
    """Information of the weighted sequences, from ends drawn again: on average never above the
    capacity."""
    error: float
    """Standard error of `nats`."""
    adapted: float
    """The paper's own estimate Σ α_i D_i, from the ends that the weights were adapted to; too high
    for few ends."""
    weights: np.ndarray
    """`float64[S]`: α, one for each sequence."""
    effective: float
    """Effective sample size 1 / Σ α²."""
    iterations: int
    status: str
    """One sentence: whether the weights settled, and what to try where they did not."""


def reweighted(log_weights: np.ndarray, distortions: np.ndarray) -> np.ndarray:
    """ln α_t+1 = ln α_t + D_t - c, eq. BAparticles, with c = ln Σ α_t exp D_t (printed without the
    logarithm)."""
    moved = log_weights + distortions
    return moved - _log_sum(moved)


def importance(
    model: Conditional,
    draws: int = 10,
    *,
    cost: np.ndarray | None = None,
    budget: float | None = None,
    tolerance: float = 1e-3,
    iterations: int = 1000,
    seed: int = 0,
) -> Importance:
    """Capacity of the channel from S sequences to their ends, `draws` = J of them for each
    (appendix B.1).

    D_i is the mean of ln p(s'_k,i|a_i) / p_t(s'_k,i) over a sequence's draws, eq.
    DistortionParticles. Stops when no weight grows by more than `tolerance` nats a step. With
    `cost` (one number for each sequence) and `budget`, weights are kept to a mean cost of at most
    `budget`: a power constraint.

    >>> model = Discrete(np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> round(importance(model, draws=10_000).nats, 2)  # a binary symmetric channel: 0.368
    0.37
    """
    _check(model, draws, cost, budget, tolerance, iterations)
    rng, size = np.random.default_rng(seed), model.size
    seen = _Seen(model, np.repeat(np.arange(size), draws), rng)
    log_weights = _within(np.full(size, -np.log(size)), cost, budget)
    for iteration in range(iterations + 1):
        values = seen.divergences(log_weights).reshape(size, draws).mean(1)
        moved = _within(reweighted(log_weights, values), cost, budget)
        gap = float((moved - log_weights).max())
        if gap <= tolerance or iteration == iterations:
            break
        log_weights = moved
    weights = np.exp(log_weights)
    fresh = _Seen(
        model, rng.choice(size, size * draws, p=weights / weights.sum()), rng
    ).divergences(log_weights)
    return Importance(
        nats=float(fresh.mean()),
        error=float(fresh.std() / np.sqrt(len(fresh))),
        adapted=float(weights @ values),
        weights=weights,
        effective=float(1 / (weights**2).sum()),
        iterations=iteration,
        status=_status(gap, iteration, tolerance),
    )


def importance_landscape(
    world: World,
    horizon: int,
    states: State | None = None,
    *,
    sequences: int = 1000,
    draws: int = 10,
    seed: int = 0,
) -> Landscape:
    """Empowerment of a discrete world from `sequences` uniform action sequences at each state
    (appendix B.1)."""
    check_horizon(horizon)
    states = world.states() if states is None else check_states(world, states)
    rng = np.random.default_rng(seed)
    nats = [
        importance(
            sampled_rows(world, take(states, i), horizon, sequences, rng),
            draws,
            seed=int(rng.integers(2**31)),
        )
        for i in range(len(leaves(states)[0]))
    ]
    return Landscape.of(world, horizon, states, [estimate.nats for estimate in nats])


def sampled_rows(
    world: World, state: State, horizon: int, count: int, rng: np.random.Generator
) -> Discrete:
    """The channel of `count` uniform action sequences from one state, from the world's own table of
    outcomes."""
    return Discrete(rows_of(world, state, rng.integers(len(world.actions), size=(count, horizon))))


class _Seen:
    """Ends drawn for some sequences, with the densities that a step needs."""

    def __init__(self, model: Conditional, which: np.ndarray, rng: np.random.Generator):
        self._model, self._which, self._draws = model, which, model.draw(which, rng)
        self._kept = list(self._made()) if len(self._draws.ends) * model.size <= KEPT else None

    def divergences(self, log_weights: np.ndarray) -> np.ndarray:
        """ln p(s'|a) / p_t(s') of each draw, with p_t(s') = Σ_i α_i p(s'|a_i)."""
        weights, draws = np.exp(log_weights), self._draws
        with np.errstate(divide="ignore"):
            mixed = [top + np.log(scaled @ weights) for scaled, top in self._kept or self._made()]
        # A sequence's own share is a bound that holds where its weight is too small to be added up.
        least = draws.log_own + log_weights[self._which]
        return draws.log_own - np.maximum(np.concatenate(mixed)[draws.index], least)

    def _made(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Densities of some ends, divided by the largest of each end, and the logarithm of that."""
        step = max(BLOCK // self._model.size, 1)
        for i in range(0, len(self._draws.ends), step):
            log_density = self._model.log_density(self._draws.ends[i : i + step])
            top = log_density.max(axis=1)
            yield np.exp(log_density - top[:, None]), top


def _within(log_weights: np.ndarray, cost: np.ndarray | None, budget: float | None) -> np.ndarray:
    """The nearest weights of mean cost `budget` or less: tilted by exp(-λ cost), λ by bisection."""
    if cost is None or budget is None or np.exp(log_weights) @ cost <= budget:
        return log_weights

    def tilted(slope: float) -> np.ndarray:
        moved = log_weights - slope * cost
        return moved - _log_sum(moved)

    low, high = 0.0, 1.0 / budget
    while np.exp(tilted(high)) @ cost > budget:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if np.exp(tilted(middle)) @ cost > budget else (low, middle)
    return tilted(high)


def _log_sum(values: np.ndarray) -> float:
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def _status(gap: float, iterations: int, tolerance: float) -> str:
    if gap <= tolerance:
        return (
            f"Settled after {iterations} iterations: no weight grows by more than {gap:.1e} nats a "
            "step."
        )
    return (
        f"Not settled after {iterations} iterations: a weight still grows by {gap:.1e} nats a "
        "step; "
        f"give more iterations, or tolerance={2 * gap:.0e}."
    )


def _check(
    model: Conditional,
    draws: int,
    cost: np.ndarray | None,
    budget: float | None,
    tolerance: float,
    iterations: int,
) -> None:
    for name, value in {
        "draws": draws,
        "iterations": iterations,
        "the number of sequences": model.size,
    }.items():
        if value < 1:
            raise ValueError(f"{name} is {value}: give a whole number of 1 or more")
    if not tolerance > 0:
        raise ValueError(f"tolerance={tolerance} must be a positive number of nats")
    if (cost is None) != (budget is None):
        raise ValueError("cost and budget belong together; give both or neither")
    if cost is not None and budget is not None:
        if cost.shape != (model.size,):
            raise ValueError(
                f"cost has shape {cost.shape} for {model.size} sequences; give one number for each"
            )
        if not max(float(cost.min()), 0.0) < budget:
            raise ValueError(
                f"budget={budget} must exceed 0 and the cheapest sequence's cost, {cost.min()}"
            )
