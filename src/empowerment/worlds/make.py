"""`emp.make`: a world by its name, by a map, or by the id of a registered Gymnasium environment."""

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium import wrappers

from .registry import did_you_mean
from .registry import make as make_own
from .third_party import from_gymnasium
from .world import World

PREFIX = "gym:"
COPIES = 16
"""Copies of an environment that can only be acted in."""
REGISTERING = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid", "ALE/": "ale_py"}
"""Packages that register environments when they are imported, by how the ids begin."""
LARGEST_PICTURE, TILE = 96, 8
"""Pixels of the longer side of a picture of a whole grid, and of each cell, at most."""
ATARI_SIDE = 42
"""Pixels of a side of an Atari picture."""


def make(
    world: str | os.PathLike[str] | Sequence[Any],
    *,
    copies: int | None = None,
    wrap: str | None = None,
    **options: Any,
) -> World:
    """A built-in world by name; a map: the path of its text file, its text, or a list of its lines;
    or `gym:` and the id of a registered Gymnasium environment.

    Options of grid worlds: `slip` (probability that a random move replaces the action) and
    `bricks`.

    An environment that reveals its dynamics becomes an exact world, as by `from_gymnasium`, of the
    level that `reset(seed=0)` gives. With
    `copies`, and for every other environment, that many copies of it are acted in (16 by default).
    `wrap` names the usual wrappers: `minigrid-rgb` (a picture of the whole grid), `minigrid-full`
    (the whole grid as numbers), `atari` (grey pictures of 42 x 42), `flatten`, or `key:NAME` (one
    part of a Dict). Other options go to `gymnasium.make`.

    >>> make("two-rooms", slip=0.1).outcomes
    5
    >>> make("#####\\n#a.b#\\n#####").name
    'map'
    >>> make("gym:FrozenLake-v1", is_slippery=False).deterministic
    True
    """
    if isinstance(world, str) and world.startswith(PREFIX):
        return _from_id(world.removeprefix(PREFIX), copies, wrap, options)
    if copies is not None or wrap is not None:
        raise ValueError(
            f"copies={copies} and wrap={wrap!r} are for Gymnasium environments ({PREFIX}ID), and "
            f"{str(world)[:40]!r} is none; leave them out"
        )
    return make_own(world, **options)


def _from_id(name: str, copies: int | None, wrap: str | None, options: dict[str, Any]) -> World:
    """A registered environment as a world."""
    build = _builder(name, wrap, options)
    env = build()
    if copies is None:
        env.reset(seed=0)
        found = from_gymnasium(env)
        if found.settable:
            return found
    env.close()
    return from_gymnasium(build, learn=True, copies=COPIES if copies is None else copies)


def _builder(name: str, wrap: str | None, options: dict[str, Any]) -> Callable[[], gymnasium.Env]:
    """A function that makes the wrapped environment."""
    for beginning, package in REGISTERING.items():
        if name.startswith(beginning):
            _import(package, name)
    wrapped = wrapper(wrap)
    given: dict[str, Any] = ({"frameskip": 1} if wrap == "atari" else {}) | options

    def build() -> gymnasium.Env:
        try:
            env = gymnasium.make(name, **given)
        except gymnasium.error.Error as error:
            raise ValueError(
                f"world 'gym:{name}' cannot be made: {' '.join(str(error).split())}"
            ) from None
        except ImportError as error:
            raise ValueError(f"world 'gym:{name}' needs {error.name}; pip install it") from None
        except (TypeError, KeyError) as error:
            raise ValueError(
                f"world 'gym:{name}' does not take these options: {error}; leave them out"
            ) from None
        try:
            return wrapped(env)
        except (AttributeError, AssertionError) as error:
            raise ValueError(f"wrap={wrap!r} does not fit world 'gym:{name}': {error}") from None

    return build


def _import(package: str, name: str) -> None:
    try:
        importlib.import_module(package)
    except ImportError:
        raise ValueError(f"world 'gym:{name}' needs {package}; pip install it") from None


def wrapper(wrap: str | None) -> Callable[[gymnasium.Env], gymnasium.Env]:
    """The wrapper of this name."""
    known = {
        "minigrid-rgb": _whole_picture,
        "minigrid-full": _whole_grid,
        "atari": _atari,
        "flatten": wrappers.FlattenObservation,
    }
    if wrap is None:
        return lambda env: env
    if wrap.startswith("key:"):
        return lambda env: _part(env, wrap.removeprefix("key:"))
    if wrap not in known:
        raise ValueError(
            f"wrap={wrap!r} is unknown{did_you_mean(wrap, known)}; give one of "
            f"{', '.join(known)}, or key:NAME"
        )
    return known[wrap]


def _part(env: gymnasium.Env, key: str) -> gymnasium.Env:
    """One part of what a Dict observation shows."""
    space = env.observation_space
    parts = space.spaces if isinstance(space, gymnasium.spaces.Dict) else {}
    if key not in parts:
        raise ValueError(
            f"wrap='key:{key}' names no part of observations "
            f"{type(space).__name__}({', '.join(parts)}); give one of them"
        )
    return wrappers.TransformObservation(env, lambda seen: seen[key], parts[key])


def _whole_picture(env: gymnasium.Env) -> gymnasium.Env:
    from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

    side = max(env.unwrapped.width, env.unwrapped.height)  # pyright: ignore[reportAttributeAccessIssue] - MiniGrid's
    return ImgObsWrapper(RGBImgObsWrapper(env, tile_size=min(TILE, LARGEST_PICTURE // side)))


def _whole_grid(env: gymnasium.Env) -> gymnasium.Env:
    from minigrid.wrappers import FullyObsWrapper, ImgObsWrapper

    return ImgObsWrapper(FullyObsWrapper(env))


def _atari(env: gymnasium.Env) -> gymnasium.Env:
    return wrappers.AtariPreprocessing(env, screen_size=ATARI_SIDE, grayscale_newaxis=True)
