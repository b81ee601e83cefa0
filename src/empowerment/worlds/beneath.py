"""The exact state beneath a live environment."""

import sys
from typing import Any, cast

import gymnasium
import numpy as np

from .environment import WorldEnv
from .third_party import from_gymnasium, name_of
from .world import State, World, leaves


class Beneath:
    """Reads the state of an enumerable environment, in the form of its exact world."""

    def __init__(self, env: gymnasium.Env):
        self._env, self._inner = env, cast(Any, env.unwrapped)
        if not is_enumerable(env):
            raise ValueError(
                f"environment {name_of(env)!r} can be learned on but not enumerated, so it has no "
                "exact empowerment; "
                "give a trained estimator (emp.train)"
            )
        self._fixed = None if is_minigrid(env) else from_gymnasium(env)
        self._table, self._drawn = getattr(self._inner, "P", None), 0

    def begin(self) -> tuple[World, Any]:
        """The world after a reset, which may have drawn another grid, and what tells it from
        others."""
        if self._fixed is None:
            world: Any = from_gymnasium(self._env)
            self._read = world.reader(self._inner)
            return world, world.signature()
        if getattr(self._inner, "P", None) is not self._table:  # drawn again by the reset
            self._table, self._drawn = self._inner.P, self._drawn + 1
            self._fixed = from_gymnasium(self._env)
        if not isinstance(self._inner, WorldEnv) and not hasattr(self._inner, "s"):
            raise ValueError(
                f"environment {name_of(self._env)!r} does not tell its state as env.s; give a "
                "trained estimator"
            )
        self._read = (
            (lambda: self._inner.state)
            if isinstance(self._inner, WorldEnv)
            else lambda: np.int32(self._inner.s)
        )
        return self._fixed, self._drawn

    def state(self) -> State:
        """The present state, as a batch of one."""
        state = self._read()
        parts = [np.asarray(x)[None] for x in leaves(state)]
        return type(state)(*parts) if isinstance(state, tuple) else parts[0]


def is_minigrid(env: gymnasium.Env) -> bool:
    """Whether this is a MiniGrid environment; the package is not imported for it."""
    if "minigrid" not in sys.modules:
        return False
    from . import minigrid

    return minigrid.is_minigrid(env.unwrapped)


def is_enumerable(env: gymnasium.Env) -> bool:
    """Whether the environment reveals its dynamics."""
    inner: Any = env.unwrapped
    return (
        isinstance(inner, WorldEnv)
        or isinstance(getattr(inner, "P", None), dict)
        or is_minigrid(env)
    )
