"""A narrow bridge over lava, with side wind: a careful walker crosses it, one that does not look
falls."""

import numpy as np

from .grid import COLOURS
from .table import TableWorld
from .world import Layout

MAP = (
    "#############",
    "##~~~~#.....#",
    "##~~~~#.....#",
    "#a..........#",
    "##....#.....#",
    "##~~~~#.....#",
    "#############",
)
"""`~` is lava. The wind blows downwards wherever lava is above or below."""
MOVES = {"stay": (0, 0), "up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def windy_bridge(wind: float = 0.2) -> TableWorld:
    """The bridge as a table: one state for each cell of land, and the fall into the lava, which
    ends the episode. After each move on the bridge, with probability `wind`, a gust carries the
    agent one cell down.

    >>> windy_bridge().branches
    2
    """
    if isinstance(wind, bool) or not isinstance(wind, int | float) or not 0 <= wind <= 1:
        raise ValueError(f"wind={wind!r} is no probability; give a number from 0 to 1")
    cells = np.array([list(line) for line in MAP])
    land = np.argwhere((cells == ".") | (cells == "a"))
    fallen = len(land)
    number = np.full(cells.shape, fallen)
    number[tuple(land.T)] = np.arange(fallen)
    successors = np.full((fallen + 1, len(MOVES), 2), fallen)
    windy = (cells == "~").any(0)
    for a, move in enumerate(MOVES.values()):
        calm = _moved(cells, land, np.array(move))
        gust = windy[calm[:, 1]] & (cells[tuple(calm.T)] != "~")
        blown = np.where(gust[:, None], _moved(cells, calm, np.array([1, 0])), calm)
        successors[:fallen, a] = np.stack([number[tuple(calm.T)], number[tuple(blown.T)]], axis=1)
    odds = np.broadcast_to([1 - wind, wind], successors.shape).copy()
    return TableWorld(
        successors,
        odds,
        "windy-bridge",
        tuple(MOVES),
        start=int(number[tuple(np.argwhere(cells == "a")[0])]),
        layout=Layout(cells.shape, cells == "#", _lava(cells)),
        places=np.concatenate([land, [[1, 2]]]),
        terminals=np.arange(fallen + 1) == fallen,
        shown=np.arange(fallen),
        spec={"kind": "windy-bridge", "wind": float(wind)},
        frames=_frames(cells, land),
    )


def _moved(cells: np.ndarray, places: np.ndarray, move: np.ndarray) -> np.ndarray:
    """Where a move leads from each place; walls stop it."""
    after = places + move
    return np.where((cells[tuple(after.T)] == "#")[:, None], places, after)


def _lava(cells: np.ndarray) -> tuple[tuple[str, int, int], ...]:
    return tuple(("lava", int(row), int(column)) for row, column in np.argwhere(cells == "~"))


def _frames(cells: np.ndarray, land: np.ndarray) -> np.ndarray:
    """A picture of each state, a pixel a cell; after the fall there is no agent."""
    colours = {"#": COLOURS["wall"], "~": COLOURS["lava"]}
    empty = np.array([[colours.get(x, COLOURS["floor"]) for x in row] for row in cells], np.uint8)
    frames = np.repeat(empty[None], len(land) + 1, axis=0)
    frames[np.arange(len(land)), land[:, 0], land[:, 1]] = COLOURS["agent"]
    return frames
