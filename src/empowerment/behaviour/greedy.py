"""One-step greedy empowerment: a = argmax_a C(s, a) with C(s, a) = E_{p(s'|s, a)}[E(s')] (section
4.3)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..worlds.world import State, World, take
from .behaviour import (
    Choice,
    advance,
    candidates,
    count,
    outcomes,
    pick,
    refuse_continuous,
    restarted,
)
from .value import TIE, Value


def expected_value(world: World, value: Value, states: State) -> np.ndarray:
    """C(s, a) = E_{p(s'|s, a)}[E(s')] of every action, `float64[n, actions]`."""
    after, odds = outcomes(world, states)
    return (odds * value(after).reshape(odds.shape)).sum(axis=-1)


@dataclass(frozen=True)
class Greedy:
    """The action with the highest expected empowerment one step ahead, by the world's own
    `step`."""

    world: World
    value: Value
    tie: float = TIE
    """nats within which actions count as equal and are drawn at random"""

    def __call__(self, states: State, rng: np.random.Generator) -> Choice:
        expected = expected_value(self.world, self.value, states)
        return Choice(candidates(self.world)[pick(expected, rng, self.tie)], expected)


def steepest(
    value: Value, shifted: Callable[[np.ndarray], State], size: int, by: float
) -> np.ndarray:
    """The gradient of empowerment over places, `float64[n, size]` in nats for each unit of length.

    `shifted(offset)` gives the states with the agent moved; differences are central, over `by` each
    way.
    """
    steps = by * np.eye(size)
    return np.stack([(value(shifted(s)) - value(shifted(-s))) / (2 * by) for s in steps], axis=-1)


class Averages:
    """C(x, a) as a running average over experience (x, a, E(x')), where there is no simulator to
    copy.

    Observations are distinguished by their bytes, so that it suits worlds whose views recur.
    """

    def __init__(self, actions: int):
        self._empty = np.full(actions, np.nan)
        self._means: dict[bytes, np.ndarray] = {}
        self._counts: dict[bytes, np.ndarray] = {}

    def update(
        self, observations: np.ndarray, actions: np.ndarray, empowerment: np.ndarray
    ) -> None:
        """Experience: what was seen, what was done, and the empowerment of what came of it."""
        for view, action, value in zip(observations, actions, empowerment, strict=True):
            name = view.tobytes()
            means = self._means.setdefault(name, self._empty.copy())
            counts = self._counts.setdefault(name, np.zeros(len(self._empty)))
            counts[action] += 1
            old = value if counts[action] == 1 else means[action]
            means[action] = old + (value - old) / counts[action]

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """`float64[n, actions]`: C(x, a); NaN for actions that were never tried there."""
        return np.array([self._means.get(view.tobytes(), self._empty) for view in observations])


@dataclass(frozen=True)
class ModelFree:
    """Greedy on learned averages C(x, a): it uses what the agent sees and never the world's
    `step`."""

    world: World
    value: Value
    averages: Averages
    tie: float = TIE

    def __call__(self, states: State, rng: np.random.Generator) -> Choice:
        expected = self.averages(np.asarray(self.world.observe(states)))
        # Tried actions go first; where none was tried, all are equally unknown.
        return Choice(
            pick(np.nan_to_num(expected, nan=np.finfo(float).min), rng, self.tie), expected
        )


def learn_averages(
    world: World,
    value: Value,
    steps: int = 2000,
    walkers: int = 32,
    length: int = 50,
    seed: int = 0,
) -> ModelFree:
    """Model-free greedy from random play: `walkers` agents take `steps` steps, each restarting
    after `length`."""
    refuse_continuous(world, "model-free greedy")
    rng, averages = np.random.default_rng(seed), Averages(len(world.actions))
    starts = world.states()
    states = take(starts, rng.integers(count(starts), size=walkers))
    for t in range(steps):
        actions = rng.integers(len(world.actions), size=walkers)
        after = advance(world, states, actions, rng)
        averages.update(np.asarray(world.observe(states)), actions, value(after))
        states = restarted(world, after, (t + 1) % length == 0, rng)
    return ModelFree(world, value, averages)
