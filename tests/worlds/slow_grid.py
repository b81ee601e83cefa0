"""A slow, obvious reimplementation of the grid rules: sets of cells and `if`s, nothing shared with
the engine."""

from dataclasses import dataclass, field, replace

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1), "stay": (0, 0)}


@dataclass(frozen=True)
class Slow:
    walls: frozenset
    door_cells: frozenset
    agent: tuple
    keys: frozenset
    closed: frozenset
    boxes: frozenset
    lava: frozenset
    bricks: frozenset = field(default_factory=frozenset)
    carrying: bool = False
    alive: bool = True


def read(text):
    cells = {}
    for r, row in enumerate(text.split()):
        for c, symbol in enumerate(row):
            cells.setdefault(symbol, set()).add((r, c))
    rows = text.split()
    outside = {(r, c) for r in range(-1, len(rows) + 1) for c in (-1, len(rows[0]))}
    outside |= {(r, c) for c in range(-1, len(rows[0]) + 1) for r in (-1, len(rows))}
    return Slow(
        walls=frozenset(cells.get("#", set()) | outside),
        door_cells=frozenset(cells.get("d", ())),
        agent=next(iter(cells["a"])),
        keys=frozenset(cells.get("k", ())),
        closed=frozenset(cells.get("d", ())),
        boxes=frozenset(cells.get("b", ())),
        lava=frozenset(cells.get("l", ())),
    )


def step(s, action):
    if not s.alive:
        return s
    if action in MOVES:
        s = _walk(s, MOVES[action])
    elif action == "pick up":
        if s.agent in s.keys:
            s = replace(s, keys=s.keys - {s.agent}, carrying=True)
    else:
        s = _brick(s, MOVES[action.removeprefix("brick ")])
    spread = set(s.lava)
    for r, c in s.lava:
        for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            cell = (r + dr, c + dc)
            if cell not in s.walls | s.bricks | s.boxes | s.closed:
                spread.add(cell)
    s = replace(s, lava=frozenset(spread))
    return replace(s, alive=s.agent not in s.lava)


def _walk(s, by):
    to = (s.agent[0] + by[0], s.agent[1] + by[1])
    if by == (0, 0) or to in s.walls or to in s.bricks:
        return s
    if to in s.closed:
        return replace(s, agent=to, closed=s.closed - {to}) if s.carrying else s
    if to in s.boxes:
        beyond = (to[0] + by[0], to[1] + by[1])
        if beyond in s.walls | s.boxes | s.bricks | s.door_cells:
            return s
        return replace(s, agent=to, boxes=s.boxes - {to} | {beyond})
    return replace(s, agent=to)


def _brick(s, by):
    to = (s.agent[0] + by[0], s.agent[1] + by[1])
    if to in s.walls | s.boxes | s.bricks | s.lava | s.keys | s.door_cells:
        return s
    return replace(s, bricks=s.bricks | {to})
