"""Worlds by name, and worlds from a user's own map file."""

import difflib
import inspect
import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from .grid import GridWorld, Map
from .pendulum import Pendulum
from .point_mass import PointMass
from .predator_prey import PredatorPrey
from .table import tree
from .windy_bridge import windy_bridge
from .world import World

SPECS: dict[str, dict[str, Any]] = {
    "grid": {"name": str, "map": list, "slip": (int, float), "bricks": bool},
    "tree": {"depth": int},
    "windy-bridge": {"wind": (int, float)},
    "point-mass": {},
    "pendulum": {},
    "predator-prey": {"model": type(None)},
}
"""What the description of a world holds, by kind; never a path, since it may come from anywhere."""
LARGEST_MAP = 16 * 2**20  # bytes; a map of 4000 x 4000 cells


def _builtin(name: str, **options: Any) -> World:
    text = (files("empowerment.worlds") / "maps" / f"{name}.txt").read_text()
    return GridWorld(Map.parse(text, name), **options)


def _grid(name: str, bricks: bool = False) -> Callable[..., World]:
    def build(slip: float = 0.0, bricks: bool = bricks) -> World:
        return _builtin(name, slip=slip, bricks=bricks)

    return build


WORLDS: dict[str, Callable[..., World]] = {
    "open-room": _grid("open-room"),
    "cross-room": _grid("cross-room"),
    "two-rooms": _grid("two-rooms"),
    "box-empty": _grid("box-empty"),
    "box-fixed": _grid("box-fixed"),
    "box-movable": _grid("box-movable"),
    "box-row": _grid("box-row"),
    "key-door": _grid("key-door"),
    "lava-corridor": _grid("lava-corridor", bricks=True),
    "lava-maze": _grid("lava-maze", bricks=True),
    "tree": tree,
    "windy-bridge": windy_bridge,
    "point-mass": PointMass,
    "pendulum": Pendulum,
    "predator-prey": PredatorPrey,
}


def worlds() -> tuple[str, ...]:
    """Names of the built-in worlds.

    >>> "two-rooms" in worlds()
    True
    """
    return tuple(WORLDS)


def make(world: str | os.PathLike[str] | Sequence[Any], **options: Any) -> World:
    """A built-in world by name, or a map: the path of its text file, its text, or a list of its
    lines.

    Options of grid worlds: `slip` (probability that a random move replaces the action) and
    `bricks`.

    >>> make("two-rooms", slip=0.1).outcomes
    5
    >>> make("#####\\n#a.b#\\n#####").name
    'map'
    """
    name = (
        "\n".join(_lines(world)) + "\n"
        if isinstance(world, list | tuple)
        else os.fspath(cast(str, world))
    )
    if "\n" in name:
        name, build = "map", partial(GridWorld, Map.parse(name, "map"))
    elif name in WORLDS:
        build = WORLDS[name]
    elif name.endswith(".txt") or os.sep in name or Path(name).is_file():
        build = partial(GridWorld, Map.parse(_read(Path(name)), Path(name).stem))
    else:
        raise ValueError(
            f"world {name!r} is unknown{did_you_mean(name, WORLDS)}; "
            f"give one of {', '.join(WORLDS)}, or the path of a map (.txt)"
        )
    for option in options:
        known = list(inspect.signature(build).parameters)
        if option not in known:
            raise ValueError(
                f"world {name!r} has no option {option!r}{did_you_mean(option, known)}; "
                f"it takes {', '.join(known) or 'none'}"
            )
    return build(**options)


def rebuild(spec: Any) -> World | None:
    """The world that a `spec` describes, or None if only its program can make it. A spec may come
    from anywhere."""
    if spec is None:
        return None
    kind = spec.get("kind") if isinstance(spec, dict) else spec
    if not isinstance(kind, str) or kind not in SPECS:
        raise ValueError(f"world of kind {kind!r} is unknown to this version; update empowerment")
    for name, types in SPECS[kind].items():
        if not isinstance(spec.get(name), types):
            raise ValueError(
                f"world of kind {kind!r} is described with {name}={spec.get(name)!r}; restore the "
                "file"
            )
    if kind != "grid":
        return WORLDS[kind](**{name: value for name, value in spec.items() if name != "kind"})
    return GridWorld(
        Map.parse("\n".join(map(str, spec["map"])), spec["name"]), spec["slip"], spec["bricks"]
    )


def did_you_mean(word: str, known: Any) -> str:
    """A hint for a misspelt name, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _lines(world: Any) -> list[str]:
    for line in world:
        if not isinstance(line, str):
            raise ValueError(
                f"a map is a list of lines of text, and {line!r} is none; give strings such as "
                "'#a.#'"
            )
    return list(world)


def _read(path: Path) -> str:
    if not path.is_file():
        raise ValueError(
            f"map file {str(path)!r} does not exist; check the path, or see emp.worlds() for names"
        )
    if path.stat().st_size > LARGEST_MAP:
        raise ValueError(
            f"map file {str(path)!r} is larger than {LARGEST_MAP // 2**20} MiB; give a smaller map"
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(
            f"map file {str(path)!r} is not text; draw it with # . b k d l a"
        ) from None
