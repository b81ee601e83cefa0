"""The source as a behaviour (section 4.3): K actions drawn from ω(a|s) or h(a|s) are played without
looking."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..capacity import capacity
from ..channel import channel
from ..exact import check_horizon, exact, optimal_source
from ..worlds.world import State, World, identify, take
from .behaviour import Choice, count
from .value import Value

Draw = Callable[[Any, np.random.Generator], np.ndarray]
"""Draws a sequence `int64[K]` from the source of one state."""


@runtime_checkable
class Sampler(Protocol):
    """What `learned_source` needs of a trained estimator."""

    def source(self, observation: Any, samples: int = 1, seed: int = 0) -> np.ndarray:
        """Sequences drawn at one observation, `int[samples, K]`."""
        ...


@dataclass(frozen=True)
class FromSource:
    """Sequences drawn from the source: an explorer that visits all ends evenly, and so with a large
    variance."""

    world: World
    value: Value
    draw: Draw

    def __call__(self, states: State, rng: np.random.Generator) -> Choice:
        return Choice(np.stack([self.draw(take(states, i), rng) for i in range(count(states))]))


def exact_source(world: World, horizon: int) -> Draw:
    """Draws from the optimal source: ω(a|s) = 1 / (n(s) n(a, s)) of appendix A, or the one that
    `capacity` finds."""
    check_horizon(horizon)

    def counted(state: State, rng: np.random.Generator) -> np.ndarray:
        source = optimal_source(world, state, horizon)
        return source.sequences[rng.choice(len(source.probabilities), p=source.probabilities)]

    def iterated(state: State, rng: np.random.Generator) -> np.ndarray:
        rows = channel(world, state, horizon)[0]
        weights = capacity(rows.matrix).source
        return rows.sequences[rng.choice(len(weights), p=weights / weights.sum())]

    return counted if world.deterministic else iterated


def feedback_source(world: World, horizon: int | float, discount: float = 1.0) -> Draw:
    """Draws one action from the best source with feedback, ω_K(a|s): it looks before each step."""

    @cache
    def distribution(name: bytes) -> np.ndarray:
        found = exact(world, horizon, known[name], feedback=True, discount=discount).source
        assert found is not None  # with feedback there is one
        return found[0]

    known: dict[bytes, State] = {}

    def draw(state: State, rng: np.random.Generator) -> np.ndarray:
        batch = take(state, None)
        name = identify(batch)[0].tobytes()
        known[name] = batch
        weights = distribution(name)
        return rng.choice(len(weights), size=1, p=weights)

    return draw


def learned_source(world: World, estimator: Sampler) -> Draw:
    """Draws from the learned source h(a|s)."""

    def draw(state: State, rng: np.random.Generator) -> np.ndarray:
        observation = np.asarray(world.observe(state))
        return estimator.source(observation, 1, int(rng.integers(2**31)))[0]

    return draw
