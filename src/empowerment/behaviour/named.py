"""Behaviours by name, for the command line and for tables that compare them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..worlds.registry import did_you_mean
from ..worlds.world import World
from .behaviour import Behaviour, Random
from .greedy import Greedy, learn_averages
from .planning import LookAhead, plan, q_learning
from .shaping import arrival, shape
from .source import Draw, FromSource
from .value import Value


@dataclass(frozen=True)
class Setting:
    """What a behaviour may be made from; each takes what it needs."""

    world: World
    value: Value
    """empowerment, exact or learned"""
    draw: Draw
    """source of action sequences, exact or learned"""
    gamma: float = 0.95
    """discount of planning and shaping"""
    goal: tuple[int, int] | None = None
    """row and column that the shaped task is to reach; by default the most empowered place"""
    experience: int = 2000
    """steps that each walker takes, for behaviours that learn"""
    seed: int = 0
    """seed of those that learn"""


def shaped_task(setting: Setting) -> Behaviour:
    """Q-learning of the way to a place, with empowerment as the potential."""
    world, value = setting.world, setting.value
    goal = most_empowered_place(world, value) if setting.goal is None else setting.goal
    reward = shape(arrival(world, goal), world, value, setting.gamma)
    return q_learning(world, value, setting.gamma, reward, setting.experience, seed=setting.seed)


def most_empowered_place(world: World, value: Value) -> tuple[int, int]:
    """Row and column of the highest value over `world.states()`."""
    states = world.states()
    row, column = world.locate(states)[np.argmax(value(states))]
    return int(row), int(column)


BEHAVIOURS: dict[str, Callable[[Setting], Behaviour]] = {
    "greedy": lambda s: Greedy(s.world, s.value),
    "model-free": lambda s: learn_averages(s.world, s.value, s.experience, seed=s.seed),
    "planning": lambda s: plan(s.world, s.value, s.gamma),
    "q-learning": lambda s: q_learning(s.world, s.value, s.gamma, steps=s.experience, seed=s.seed),
    "look-ahead": lambda s: LookAhead(s.world, s.value, s.gamma),
    "shaping": shaped_task,
    "source": lambda s: FromSource(s.world, s.value, s.draw),
    "random": lambda s: Random(s.world, s.value),
}


def make_behaviour(name: str, setting: Setting) -> Behaviour:
    """A behaviour by name; a ValueError knows the names."""
    if name not in BEHAVIOURS:
        known = ", ".join(BEHAVIOURS)
        raise ValueError(
            f"behaviour {name!r} is unknown{did_you_mean(name, BEHAVIOURS)}; give one of {known}"
        )
    return BEHAVIOURS[name](setting)
