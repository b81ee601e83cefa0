"""Empowerment as a potential (section 4.3): it guides the learning of a task and leaves its best
policy unchanged."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..worlds.world import State, World
from .value import Value

Reward = Callable[[Any, np.ndarray, Any], np.ndarray]
"""A task's reward for a batch of steps: states, `int[n]` actions, next states to `float64[n]`."""


def empowerment_reward(value: Value) -> Reward:
    """E(s'), empowerment as the reward itself: the long-term planning of section 4.3."""
    return lambda states, actions, after: value(after)


def potential_difference(
    world: World, value: Value, gamma: float, states: State, after: State
) -> np.ndarray:
    """F = γ E(s') - E(s) (Ng, Harada and Russell 1999), with a potential of 0 where an episode
    ends.

    Along an episode it sums to γ^T E(s_T) - E(s_0), whatever was done in between.
    """
    here = np.where(world.terminal(states), 0.0, value(states))
    there = np.where(world.terminal(after), 0.0, value(after))
    return gamma * there - here


def shape(reward: Reward, world: World, value: Value, gamma: float, scale: float = 1.0) -> Reward:
    """The task's reward plus the potential difference, in units of the task: `scale` is its worth
    of one nat.

    The best policy stays the same for every `gamma`, `scale` and value, exact or learned, right or
    wrong, provided that the task is discounted by the same `gamma`.
    """

    def shaped(states: State, actions: np.ndarray, after: State) -> np.ndarray:
        difference = potential_difference(world, value, gamma, states, after)
        return reward(states, actions, after) + scale * difference

    return shaped


def arrival(world: World, place: tuple[int, int]) -> Reward:
    """A task: 1 for every step that ends at this row and column of the layout, else 0."""
    if world.layout is None:
        raise ValueError(
            f"world {world.name!r} has no layout, so place={place} means nothing; give a reward "
            "instead"
        )
    if (
        not all(0 <= i < n for i, n in zip(place, world.layout.shape, strict=True))
        or world.layout.walls[place]
    ):
        raise ValueError(
            f"place={place} is not a free cell of world {world.name!r}; give row and column of one"
        )
    # The state of death has no place.
    return lambda states, actions, after: (
        (world.locate(after) == place).all(axis=-1) & ~np.asarray(world.terminal(after))
    ).astype(np.float64)
