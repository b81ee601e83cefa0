"""Maps made by a seed: unseen worlds of the same kinds as the built-in ones, solvable by
construction."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import binary_dilation

from .grid import GridWorld, Map
from .registry import did_you_mean

Cells = np.ndarray
"""`str[rows, columns]`, one symbol each."""
Rng = np.random.Generator


def generate(kind: str, seed: int) -> Map:
    """A map of this kind; the same seed gives the same map.

    >>> generate("rooms", 0).cells.shape
    (20, 20)
    """
    if kind not in KINDS:
        raise ValueError(
            f"kind {kind!r} is unknown{did_you_mean(kind, KINDS)}; give one of {', '.join(KINDS)}"
        )
    cells = KINDS[kind](np.random.default_rng([seed, list(KINDS).index(kind)]))
    return Map.parse("\n".join("".join(row) for row in cells), f"{kind}-{seed}")


def generate_world(kind: str, seed: int, **options: Any) -> GridWorld:
    """The world of a generated map; those with lava have bricks."""
    return GridWorld(generate(kind, seed), **{"bricks": kind.startswith("lava"), **options})


def _rooms(rng: Rng) -> Cells:
    """Two to four rooms: a wall with one or two openings, and perhaps another wall on either side
    of it."""
    cells = _empty(20, 20)
    middle = int(rng.integers(7, 13))
    openings = _wall(cells[:, middle : middle + 1], 18, rng)
    for side in (slice(1, middle), slice(middle + 1, 19)):
        if rng.random() < 0.5:
            # A wall that ended in an opening would close it.
            row = rng.choice([r for r in range(6, 14) if r not in openings])
            _wall(cells[row : row + 1, side].T, cells[row, side].size - 1, rng, first=0)
    return _turned(_with_agent(cells, rng), rng)


def _wall(line: Cells, last: int, rng: Rng, first: int = 1) -> list[int]:
    """Draw a wall along a one-column view, and open it at one or two places."""
    line[...] = "#"
    openings = rng.choice(np.arange(first, last + 1), size=rng.integers(1, 3), replace=False)
    line[openings] = "."
    return openings.tolist()


def _boxes(rng: Rng) -> Cells:
    """One to four movable boxes and up to two fixed ones, none of them touching another or next to
    a wall."""
    cells = _empty(20, 20)
    for symbol in "b" * int(rng.integers(1, 5)) + "#" * int(rng.integers(0, 3)):
        free = np.logical_not(binary_dilation(cells != ".", np.ones((3, 3))))
        cells[tuple(rng.choice(np.argwhere(free)))] = symbol
    return _with_agent(cells, rng)


def _key_door(rng: Rng) -> Cells:
    """Two rooms with a door between them and the key in the smaller one, not too far from the
    door."""
    rows, left, right = int(rng.integers(8, 10)), 5, int(rng.integers(6, 9))
    cells = _empty(rows, left + right + 1)
    # A key in the corner of the taller room would be worth less than the middle of the room.
    key, door = (int(rng.integers(1, 3)) if rows == 8 else 2), int(rng.integers(3, 5))
    cells[:, left] = "#"
    cells[key, 1], cells[door, left] = "k", "d"
    cells[rows - int(rng.integers(2, 4)), rng.integers(2, left)] = "a"
    return _turned(cells, rng)


def _lava_corridor(rng: Rng) -> Cells:
    """A dead end two cells wide; lava comes from its other end. Outer walls make it high enough for
    convolutions."""
    length = int(rng.integers(10, 15))
    cells = np.full((6, length + 2), "#")
    cells[2:4, 1:-1] = "."
    sources = [(2,), (3,), (2, 3)][rng.integers(3)]
    cells[list(sources), -1] = "l"
    cells[rng.integers(2, 4), rng.integers(1, length // 2)] = "a"
    return _flipped(cells, rng)


def _lava_maze(rng: Rng) -> Cells:
    """A maze of one-cell corridors with a few loops; lava comes from below, or from above where it
    is turned over."""
    cells = np.full((11, 9), "#")
    _carve(cells, (9, 2 * int(rng.integers(4)) + 1), rng)
    walls = [
        (r, c)
        for r in range(1, 10)
        for c in range(1, 8)
        if cells[r, c] == "#" and _between(cells, r, c)
    ]
    for r, c in rng.permutation(walls)[: rng.integers(2, 5)]:
        cells[r, c] = "."
    cells[10, 2 * rng.integers(4) + 1] = "l"
    cells[_far(cells, rng)] = "a"
    return _flipped(cells, rng)


def _carve(cells: Cells, start: tuple[int, int], rng: Rng) -> None:
    """A random depth-first walk over cells of odd row and column, opening the wall between one and
    the next."""
    cells[start] = "."
    trail = [start]
    while trail:
        r, c = trail[-1]
        ahead = [(r + dr, c + dc) for dr, dc in ((-2, 0), (2, 0), (0, -2), (0, 2))]
        closed = [
            (y, x)
            for y, x in ahead
            if 0 < y < cells.shape[0] and 0 < x < cells.shape[1] and cells[y, x] == "#"
        ]
        if not closed:
            trail.pop()
            continue
        y, x = closed[rng.integers(len(closed))]
        cells[y, x] = cells[(r + y) // 2, (c + x) // 2] = "."
        trail.append((y, x))


def _between(cells: Cells, r: int, c: int) -> bool:
    """Whether opening this wall would join two corridors in a straight line."""
    across = [(cells[r - 1, c], cells[r + 1, c]), (cells[r, c - 1], cells[r, c + 1])]
    return (".", ".") in across and (r + c) % 2 == 1


def _far(cells: Cells, rng: Rng) -> tuple[int, int]:
    """A floor cell in the upper half, away from the lava."""
    row, column = rng.choice(np.argwhere(cells[:6] == "."))
    return int(row), int(column)


def _empty(rows: int, columns: int) -> Cells:
    cells = np.full((rows, columns), "#")
    cells[1:-1, 1:-1] = "."
    return cells


def _with_agent(cells: Cells, rng: Rng) -> Cells:
    cells[tuple(rng.choice(np.argwhere(cells == ".")))] = "a"
    return cells


def _flipped(cells: Cells, rng: Rng) -> Cells:
    """Left and right exchanged or not, up and down exchanged or not."""
    return cells[:: 1 - 2 * int(rng.integers(2)), :: 1 - 2 * int(rng.integers(2))]


def _turned(cells: Cells, rng: Rng) -> Cells:
    """One of the eight positions of a drawing."""
    flipped = _flipped(cells, rng)
    return flipped.T if rng.random() < 0.5 else flipped


KINDS: dict[str, Callable[[Rng], Cells]] = {
    "rooms": _rooms,
    "boxes": _boxes,
    "key-door": _key_door,
    "lava-corridor": _lava_corridor,
    "lava-maze": _lava_maze,
}
