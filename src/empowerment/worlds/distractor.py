"""A grid world with a patch of noise in its picture, which no action moves: empowerment is that of
the grid alone."""

from collections import namedtuple
from typing import Any

import numpy as np

from .grid import GridState, GridWorld
from .world import World, namespace

SIDE = 4
"""Pixels of the patch along each side; it lies below the map."""
BACKGROUND = 128

DistractedState = namedtuple("DistractedState", (*GridState._fields, "patch"))
"""The grid's state, and the brightness of each pixel of the patch, `float32[..., SIDE²]` in
standard deviations."""


class Distractor(World):
    """A deterministic grid world that is seen with a patch of noise, drawn at every step.

    The patch is part of the state and differs after every step, so that no two observations are the
    same. It says nothing of the actions, and empowerment does not change.
    """

    outcomes = None
    noise = SIDE**2

    def __init__(self, grid: GridWorld):
        if not grid.deterministic:
            raise ValueError(f"world {grid.name!r} has slip; give a deterministic grid world")
        self.grid, self.name, self.actions = grid, f"{grid.name}-distractor", grid.actions
        self.layout = grid.layout
        self.start = self.extend(grid.start)

    def extend(self, states: GridState) -> Any:
        """States of the grid, with an even patch."""
        patch = np.zeros((*np.shape(states.agent), self.noise), np.float32)
        return DistractedState(*states, patch)

    def step(self, state: Any, action: Any, outcome: Any) -> Any:
        xp = namespace(state.agent, action, outcome)
        after = self.grid.step(GridState(*state[:-1]), action, xp.zeros(np.shape(action), np.int32))
        patch = xp.broadcast_to(
            xp.asarray(outcome, dtype=np.float32), (*np.shape(after.agent), self.noise)
        )
        return DistractedState(*after, patch)

    def observe(self, state: Any) -> Any:
        xp = namespace(state.agent)
        picture = self.grid.observe(GridState(*state[:-1]))
        batch, columns = picture.shape[:-3], picture.shape[-2]
        patch = (
            xp.clip(BACKGROUND + 50 * state.patch, 0, 255)
            .astype(np.uint8)
            .reshape(*batch, SIDE, SIDE)
        )
        beside = xp.full((*batch, SIDE, columns - SIDE), BACKGROUND, np.uint8)
        below = xp.concatenate([patch, beside], axis=-1)[..., None]
        return xp.concatenate(
            [picture, xp.broadcast_to(below, (*batch, SIDE, columns, 3))], axis=-3
        )

    def states(self) -> Any:
        return self.extend(self.grid.states())

    def locate(self, states: Any) -> np.ndarray:
        return self.grid.locate(GridState(*states[:-1]))

    def terminal(self, state: Any) -> Any:
        return self.grid.terminal(GridState(*state[:-1]))
