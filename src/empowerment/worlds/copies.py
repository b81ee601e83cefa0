"""Copies of a world that runs on the host and can be put into a state, played side by side."""

from typing import Any

import numpy as np

from .learnable import StepResult
from .world import World, concatenate, take


class Copies:
    """The same face as a live environment's (`HostWorld`), on top of a world's own `step`."""

    def __init__(self, world: World, copies: int, restart: float):
        self.world = world
        self.name, self.copies, self._restart = world.name, copies, restart
        self.needs_reset = np.zeros(copies, bool)
        self._rng = np.random.default_rng(0)
        self._states: Any = None
        self.seen = np.zeros(0, np.float32)

    def begin(self, seed: int) -> None:
        """Put every copy somewhere."""
        self._rng = np.random.default_rng(seed)
        self._put(self.world.scatter(self.copies, self._rng))

    def restart_some(self) -> None:
        """Between windows: put some copies, and those whose simulation failed, somewhere else."""
        again = np.asarray(self.world.terminal(self._states)) | (
            self._rng.random(self.copies) < self._restart
        )
        fresh = self.world.scatter(self.copies, self._rng)
        self._put(
            take(concatenate([self._states, fresh]), np.arange(self.copies) + self.copies * again)
        )

    def move(self, actions: np.ndarray) -> StepResult:
        """One action in each copy; a simulation that diverges breaks its window."""
        outcome = self.world.draw_outcome(self._states, actions, self._rng)
        self._put(self.world.step(self._states, actions, outcome))
        never, ended = np.zeros(self.copies, bool), np.asarray(self.world.terminal(self._states))
        broken = ended if self.world.terminal_is_failure else never
        return StepResult(self.seen, ended & ~broken, never, broken)

    def draw_actions(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return self.world.draw_actions(shape, rng)

    def _put(self, states: Any) -> None:
        whole = isinstance(states, tuple)
        self._states = type(states)(*map(np.asarray, states)) if whole else np.asarray(states)
        self.seen = np.asarray(self.world.observe(self._states))
