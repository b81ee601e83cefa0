"""Empowerment as a value of states, so that exact and learned empowerment are interchangeable."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..exact import check_horizon, exact
from ..landscape import learned_nats
from ..worlds.world import State, World, identify, take

Value = Callable[[Any], np.ndarray]
"""A value of states: a batch of n states to `float64[n]`, in nats."""

TIE = 1e-9
"""Nats within which two actions count as equally good. Counted values differ by more or not at all;
values of random worlds are certified to a tenth of it."""


@runtime_checkable
class Empowerment(Protocol):
    """What behaviours need of a trained estimator, such as `emp.load` returns."""

    def empowerment(self, observations: Any) -> np.ndarray:
        """Nats, one for each observation."""
        ...


@runtime_checkable
class Learning(Empowerment, Protocol):
    """An estimator that keeps learning while it is used."""

    def learn(self, observations: int) -> None:
        """Called before each use with the number of observations that will be asked for."""
        ...


class Cached:
    """A value that asks for each whole state once: an agent that looks ahead meets the same states
    again and again."""

    def __init__(self, value: Value):
        self._value = value
        self._known: dict[int | bytes, float] = {}

    def __call__(self, states: State) -> np.ndarray:
        names = identify(states).tolist()
        new = {name: i for i, name in enumerate(names) if name not in self._known}
        if new:
            values = self._value(take(states, np.array(list(new.values()))))
            self._known.update(zip(new, values.tolist(), strict=True))
        return np.array([self._known[name] for name in names])

    def __len__(self) -> int:
        """How many different states were asked for."""
        return len(self._known)


def exact_value(
    world: World, horizon: int | float, feedback: bool = False, discount: float = 1.0
) -> Cached:
    """Exact empowerment of any state of the world, with feedback if wanted.

    >>> from empowerment import make
    >>> world = make("open-room")
    >>> float(exact_value(world, 5)(world.states()).max().round(4))
    4.1109
    """
    given = {"feedback": feedback, "discount": discount, "tolerance": TIE / 10}
    if not feedback:
        check_horizon(horizon)
    return Cached(lambda states: exact(world, horizon, states, **given).nats)


def learned_value(world: World, estimator: Empowerment) -> Cached:
    """Learned empowerment of what the agent sees in each state."""
    return Cached(lambda states: learned_nats(world, estimator.empowerment, states))
