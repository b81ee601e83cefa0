"""Episodes that the page can play: what was seen at each step as small pictures, and what was
expected of each action.

A JSON object of `format` (below), `title`, `world`, `behaviour`, `actions` (their names), `shape`
(rows, columns), `palette` ("#rrggbb" each), `frames` (one text each, one or two characters for
every cell: its place in the palette), `path` (row and column at each time, or null), `chosen` (the
action at each step), `empowerment` (nats at each time), `expected` (nats of every action at each
step, or null), `alive` and `reachable_cells`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..behaviour.episode import Episode
from ..worlds.scene import scene
from ..worlds.world import World, take
from .packing import pack

FORMAT = "empowerment playback 1"
LONGEST_SIDE = 64
MOST_STEPS = 5000


def save_playback(world: World, episode: Episode, path: Path, title: str, behaviour: str) -> None:
    """Write an episode for the page to a JSON file; the report finds it by its format, whatever its
    name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(playback(world, episode, title, behaviour)))


def playback(world: World, episode: Episode, title: str, behaviour: str) -> dict[str, Any]:
    """The episode in the form that the page plays."""
    (pictures, path), expected = _pictures(world, episode), episode.expected
    palette, frames = _frames(pictures)
    return {
        "format": FORMAT,
        "title": title,
        "world": world.name,
        "behaviour": behaviour,
        "actions": list(episode.names),
        "shape": list(pictures.shape[1:3]),
        "palette": palette,
        "frames": frames,
        "path": None if path is None else path.tolist(),
        "chosen": episode.chosen.tolist(),
        "empowerment": episode.empowerment.round(4).tolist(),
        "expected": None if expected is None else [[_finite(x) for x in row] for row in expected],
        "alive": bool(episode.alive),
        "reachable_cells": episode.reachable_cells,
    }


def _finite(value: float) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None


def _pictures(world: World, episode: Episode) -> tuple[np.ndarray, np.ndarray | None]:
    """`uint8[steps + 1, rows, columns, 3]`: the scenes, with every second pixel or so left out
    where they are large, except for the agent's; and where it is in them, if they show a plane."""
    scenes = np.stack([scene(world, take(episode.states, t)) for t in range(episode.steps + 1)])
    coarse = -(-max(scenes.shape[1:3]) // LONGEST_SIDE)
    plane = world.layout is not None and scenes.shape[1:3] == world.layout.shape
    small = scenes[:, ::coarse, ::coarse].copy()
    if not plane or episode.path is None:
        return small, None
    every, path = np.arange(len(small)), episode.path // coarse
    small[every, path[:, 0], path[:, 1]] = scenes[every, episode.path[:, 0], episode.path[:, 1]]
    return small, path


def _frames(pictures: np.ndarray) -> tuple[list[str], list[str]]:
    """The colours that occur, and each picture as places in that list."""
    n = len(pictures)
    found, index = np.unique(pictures.reshape(-1, 3), axis=0, return_inverse=True)
    if len(found) > 64**2:
        coarse = pictures // 32 * 32 + 16  # at most 512 colours
        return _frames(coarse)
    width = 1 if len(found) <= 64 else 2
    return ["#{:02x}{:02x}{:02x}".format(*c) for c in found], [
        pack(row, width) for row in index.reshape(n, -1)
    ]


def check_playback(found: Any) -> dict[str, Any]:
    """The playback if it is whole; a ValueError says what is wrong."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"it is not of the format {FORMAT!r}")
    steps, actions = len(found.get("chosen", ())), found.get("actions")
    rows, columns = found["shape"]
    if not all(isinstance(side, int) and side > 0 for side in (rows, columns)):
        raise ValueError("its pictures have no sides")
    if not (
        1 <= rows * columns <= LONGEST_SIDE**2
        and 1 <= steps <= MOST_STEPS
        and isinstance(actions, list)
    ):
        raise ValueError("its pictures, steps or actions are missing or too many")
    width = 1 if len(found["palette"]) <= 64 else 2
    whole = [
        len(found["frames"]) == len(found["empowerment"]) == steps + 1,
        all(isinstance(f, str) and len(f) == width * rows * columns for f in found["frames"]),
        all(isinstance(a, int) and 0 <= a < len(actions) for a in found["chosen"]),
        found["expected"] is None or all(len(row) == len(actions) for row in found["expected"]),
        found["expected"] is None or len(found["expected"]) == steps,
        found["path"] is None or len(found["path"]) == steps + 1,
        found["path"] is None or all(_is_place(place, rows, columns) for place in found["path"]),
    ]
    if not all(whole):
        raise ValueError("its parts have different lengths, or places lie outside")
    return found


def _is_place(place: Any, rows: int, columns: int) -> bool:
    row, column = place
    return (
        isinstance(row, int)
        and isinstance(column, int)
        and 0 <= row < rows
        and 0 <= column < columns
    )
