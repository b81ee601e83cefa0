"""A behaviour turns a value of states into actions (section 4.3 of the paper); one protocol for all
of them."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..reach import each
from ..worlds.world import State, World, concatenate, leaves, take
from .value import TIE, Value

DIRECTIONS = 16
"""Directions that a force in the plane is tried in."""


class Choice(NamedTuple):
    """What to do in each of n states."""

    actions: np.ndarray
    """`int64[n, k]`, or `float32[n, k, size]` where actions are vectors: to be played without
    looking; k is 1 for every behaviour but the source"""
    expected: np.ndarray | None = None
    """`float64[n, actions]`: expected empowerment of every action one step ahead, where the
    behaviour compares it; of every candidate where actions are vectors"""


@runtime_checkable
class Behaviour(Protocol):
    """A rule that turns empowerment into actions. It has no memory: what it draws at random comes
    from `rng`."""

    @property
    def value(self) -> Value:
        """Empowerment of a batch of states, exact or learned."""
        ...

    def __call__(self, states: State, rng: np.random.Generator) -> Choice:
        """What to do in each state of a batch."""
        ...


@dataclass(frozen=True)
class Random:
    """Every action equally often: the reference that the others are compared with."""

    world: World
    value: Value

    def __call__(self, states: State, rng: np.random.Generator) -> Choice:
        return Choice(self.world.draw_actions((count(states), 1), rng))


def pick(scores: np.ndarray, rng: np.random.Generator, tie: float = TIE) -> np.ndarray:
    """The best action of each row, `int64[n, 1]`; those within `tie` of the best are drawn
    evenly."""
    best = scores >= scores.max(axis=1, keepdims=True) - tie
    return np.where(best, rng.random(scores.shape), -1).argmax(axis=1)[:, None]


def count(states: State) -> int:
    """How many states a batch has."""
    return len(leaves(states)[0])


def candidates(world: World) -> np.ndarray:
    """The actions to compare: all, or where they are vectors, `float32[m, size]`, none and the
    strongest in many directions; where they are single numbers, nine evenly apart."""
    kind = world.continuous
    if kind is None:
        return np.arange(len(world.actions))
    largest = 1.0 if kind.power is None else np.sqrt(kind.power)
    if kind.size == 1:
        return (largest * np.linspace(-1, 1, 9)[:, None]).astype(np.float32)
    if kind.size == 2:
        angle = np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS
        around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        around = np.concatenate([np.eye(kind.size), -np.eye(kind.size)])
    return (largest * np.concatenate([np.zeros((1, kind.size)), around])).astype(np.float32)


def refuse_continuous(world: World, behaviour: str) -> None:
    """Behaviours that keep a number for each action need actions that can be listed."""
    if world.continuous is not None:
        raise ValueError(
            f"{behaviour} needs actions that can be listed; world {world.name!r} has forces: use "
            "greedy"
        )


def outcomes(world: World, states: State) -> tuple[State, np.ndarray]:
    """All outcomes of all actions as one flat batch, and their probabilities `float64[n, actions,
    outcomes]`.

    Where outcomes cannot be listed, two opposite draws of the noise stand for them, the same for
    every action, so that actions are compared and not draws.
    """
    actions = candidates(world)
    if world.noise:
        draw = np.random.default_rng(0).standard_normal((1, world.noise), np.float32)
        outcomes: np.ndarray = np.concatenate([draw, -draw])
    else:
        outcomes = np.arange(world.branches)
    after = world.step(take(states, np.s_[:, None, None]), actions[:, None], outcomes)
    shape = (count(states), len(actions), len(outcomes))
    if world.noise:
        odds = np.full(shape, 1 / len(outcomes))
    else:
        odds = np.broadcast_to(world.probabilities(take(states, np.s_[:, None]), actions), shape)
    return each(after, lambda x: np.asarray(x).reshape((odds.size, *x.shape[3:]))), odds


def advance(world: World, states: State, actions: np.ndarray, rng: np.random.Generator) -> State:
    """One step from each state, with chance drawn."""
    return world.step(states, actions, world.draw_outcome(states, actions, rng))


def restarted(world: World, states: State, everyone: bool, rng: np.random.Generator) -> State:
    """Walks that have ended, or all of them, begin again at a place drawn from `world.states()`."""
    starts, n = world.states(), count(states)
    fresh = take(starts, rng.integers(count(starts), size=n))
    ended = np.asarray(world.terminal(states)) | everyone
    return take(concatenate([states, fresh]), np.arange(n) + n * ended)
