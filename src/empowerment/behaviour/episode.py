"""Playing a behaviour in a world: many episodes at once, with chance and ties drawn from one
seed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exact import check_states
from ..reach import each
from ..worlds.grid import GridState, GridWorld
from ..worlds.world import State, World, concatenate, take
from .behaviour import Behaviour, advance, candidates, count


@dataclass(frozen=True, eq=False)
class Episode:
    """What one agent did, and what it was worth. It ends early where a terminal state is met."""

    names: tuple[str, ...]
    """names of the world's actions, or of the candidates where actions are vectors"""
    states: State
    """batch of the `steps + 1` states"""
    actions: np.ndarray
    """`int64[steps]`, or `float32[steps, size]` where actions are vectors"""
    chosen: np.ndarray
    """`int64[steps]`: the same as places in `names`; the nearest candidate where actions are
    vectors"""
    empowerment: np.ndarray
    """`float64[steps + 1]`: value of each state, in nats"""
    expected: np.ndarray | None
    """`float64[steps, actions]`: expected empowerment of every action in nats, for greedy
    behaviours; NaN if untried"""
    path: np.ndarray | None
    """`int64[steps + 1, 2]`: row and column at each time, the last living one after death; None
    without a layout"""
    alive: bool
    """no terminal state was met"""
    reachable_cells: int | None
    """cells that the agent can still walk to at the end; None where the world is no grid"""

    def __repr__(self) -> str:
        end = "alive" if self.alive else "ended"
        return (
            f"<Episode: {self.steps:,} steps, {end}, {self.empowerment[0]:.4f} nats at first and "
            f"{self.empowerment[-1]:.4f} at last>"
        )

    @property
    def steps(self) -> int:
        return len(self.actions)

    def summary(self) -> dict[str, Any]:
        """What `empowerment act --json` prints."""
        return {
            "alive": self.alive,
            "steps": self.steps,
            "path": None if self.path is None else self.path.tolist(),
            "actions": [self.names[a] for a in self.actions]
            if self.actions.ndim == 1
            else self.actions.tolist(),
            "empowerment": self.empowerment.tolist(),
            "reachable_cells": self.reachable_cells,
        }


def run_episode(
    world: World, behaviour: Behaviour, steps: int, seed: int = 0, start: State | None = None
) -> Episode:
    """Play one episode from the world's own start, or from another single state."""
    state = each(world.start if start is None else start, np.asarray)
    return run_episodes(world, behaviour, take(state, None), steps, seed)[0]


def at_place(world: World, place: tuple[int, int]) -> State:
    """The state with the agent at a row and column, the rest of the world as at the start."""
    states = world.states()
    found = np.flatnonzero((world.locate(states) == np.array(place)).all(axis=-1))
    if not found.size:
        raise ValueError(
            f"start={place} is no free place of world {world.name!r}; give the row and column of "
            "one"
        )
    return take(states, found[0])


def run_episodes(
    world: World, behaviour: Behaviour, starts: State, steps: int, seed: int = 0
) -> list[Episode]:
    """Play one episode from each start, all at once."""
    if steps < 1:
        raise ValueError(f"steps={steps} leaves nothing to do; give 1 or more")
    rng = np.random.default_rng(seed)
    states = [check_states(world, starts)]
    actions, expected = [], []
    while len(actions) < steps:
        choice = behaviour(states[-1], rng)
        for column in np.moveaxis(choice.actions, 1, 0)[: steps - len(actions)]:
            states.append(advance(world, states[-1], column, rng))
            actions.append(column)
            expected.append(choice.expected)
    plays = [
        concatenate([take(s, slice(i, i + 1)) for s in states]) for i in range(count(states[0]))
    ]
    moves = np.stack(actions, axis=1)
    scores = [None] * len(plays) if expected[0] is None else list(np.stack(expected, axis=1))
    return [_episode(world, behaviour, *parts) for parts in zip(plays, moves, scores, strict=True)]


def _episode(
    world: World,
    behaviour: Behaviour,
    states: State,
    actions: np.ndarray,
    expected: np.ndarray | None,
) -> Episode:
    """Cut after the first terminal state: what follows it is no part of the episode."""
    ended = np.asarray(world.terminal(states))
    steps = int(ended.argmax()) if ended.any() else len(actions)
    states = take(states, slice(0, steps + 1))
    return Episode(
        names=_names(world),
        states=states,
        actions=actions[:steps],
        chosen=_chosen(world, actions[:steps]),
        empowerment=behaviour.value(states),
        expected=None if expected is None else expected[:steps],
        path=None if world.layout is None else _path(world, states),
        alive=not ended.any(),
        reachable_cells=reachable_cells(world, take(states, -1))
        if isinstance(world, GridWorld)
        else None,
    )


def _names(world: World) -> tuple[str, ...]:
    """Names of what behaviours choose from; forces in the plane by their angles."""
    if world.continuous is None:
        return world.actions
    if world.continuous.size != 2:
        return tuple(np.array2string(a, precision=2) for a in candidates(world))
    return tuple(
        f"{np.degrees(np.arctan2(y, x)) % 360:.0f}°" if x or y else "none"
        for x, y in candidates(world)
    )


def _chosen(world: World, actions: np.ndarray) -> np.ndarray:
    if world.continuous is None:
        return actions
    return ((actions[:, None] - candidates(world)) ** 2).sum(-1).argmin(1)


def _path(world: World, states: State) -> np.ndarray:
    """Death has no place of its own in a grid; it is shown where the agent was last."""
    path = np.array(world.locate(states), np.int64)
    if isinstance(world, GridWorld) and len(path) > 1 and not states.alive[-1]:
        path[-1] = path[-2]
    return path


def reachable_cells(world: GridWorld, state: GridState) -> int:
    """Cells that the agent can walk to, its own included: no wall, brick, box, lava or door that it
    cannot open."""
    from scipy.ndimage import binary_propagation

    if not state.alive:
        return 0
    assert world.layout is not None  # every grid has one
    free = ~world.layout.walls
    for things in (state.boxes, state.bricks, state.lava):
        if things.size:
            free &= ~things.reshape(free.shape)
    doors = [(row, column) for kind, row, column in world.layout.marks if kind == "door"]
    for door, opened in zip(doors, state.doors, strict=True):
        free[door] &= bool(opened | state.carrying)
    here = np.zeros_like(free)
    here[divmod(int(state.agent), free.shape[1])] = True
    return int(np.sum(binary_propagation(here, mask=free)))
