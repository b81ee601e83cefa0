"""One engine for every grid: a text map, a set of actions, and small rules composed in one `step`.

Written on array batches in the style shared by NumPy and JAX: rules combine masks and never branch
on data.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .world import Layout, World, namespace

SYMBOLS = {
    "#": "wall",
    ".": "floor",
    "b": "movable box",
    "k": "key",
    "d": "door",
    "l": "lava source",
    "a": "agent start",
}
MOVES = ("up", "down", "left", "right", "stay")
OFFSETS = ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))
STAY = 4

# Luminance rises from wall over floor to agent; hues stay apart for colour-blind readers.
COLOURS = {
    "floor": (255, 255, 255),
    "wall": (60, 60, 60),
    "door": (0, 158, 115),
    "open": (190, 225, 205),
    "key": (240, 228, 66),
    "lava": (213, 94, 0),
    "box": (150, 111, 51),
    "brick": (128, 128, 160),
    "agent": (0, 114, 178),
    "carrying": (204, 121, 167),
}


class GridState(NamedTuple):
    """Cells are numbered row by row. Bitmaps have no cells (`[..., 0]`) in worlds without such
    things."""

    agent: Any
    """int32[...]: the agent's cell"""
    alive: Any
    """bool[...]: false in the one absorbing state of death"""
    carrying: Any
    """bool[...]: the agent has a key"""
    keys: Any
    """bool[..., keys]: still on the floor"""
    doors: Any
    """bool[..., doors]: opened"""
    boxes: Any
    """bool[..., cells]"""
    bricks: Any
    """bool[..., cells]"""
    lava: Any
    """bool[..., cells]"""


@dataclass(frozen=True)
class Map:
    """A world drawn as text, checked."""

    name: str
    cells: np.ndarray
    """`str[rows, columns]`, one of SYMBOLS each"""

    @staticmethod
    def parse(text: str, name: str) -> "Map":
        """Read a map; a ValueError says what is wrong and where. Blank lines around it and spaces
        after its lines, as editors leave them, are no part of it."""
        rows = [
            line.rstrip()
            for line in text.removeprefix("\ufeff").strip("\r\n").rstrip().splitlines()
        ]
        if not rows or not rows[0].strip():
            raise ValueError(f"map {name!r} is empty; draw rows of {' '.join(SYMBOLS)}")
        for i, row in enumerate(rows):
            if len(row) != len(rows[0]):
                raise ValueError(
                    f"map {name!r} is ragged: line {i + 1} has {len(row)} characters and line 1 "
                    "has "
                    f"{len(rows[0])}; make all lines equally long"
                )
            for j, symbol in enumerate(row):
                if symbol not in SYMBOLS:
                    legend = ", ".join(f"{s} {meaning}" for s, meaning in SYMBOLS.items())
                    raise ValueError(
                        f"map {name!r} has an unknown character {symbol!r} in line {i + 1}, column "
                        f"{j + 1}; "
                        f"use {legend}"
                    )
        cells = np.array([list(row) for row in rows])
        agents = np.argwhere(cells == "a")
        if len(agents) == 0:
            raise ValueError(f"map {name!r} has no agent start; put one 'a' on a floor cell")
        if len(agents) > 1:
            (r1, c1), (r2, c2) = agents[:2] + 1
            raise ValueError(
                f"map {name!r} has {len(agents)} agents, the first two in line {r1}, column {c1} "
                f"and line {r2}, "
                f"column {c2}; keep one 'a'"
            )
        return Map(name, cells)


class GridWorld(World):
    """A world from a map. `slip` replaces the chosen action by a random move; `bricks` adds the
    brick actions."""

    def __init__(self, map: Map, slip: float = 0.0, bricks: bool = False):
        if not isinstance(slip, int | float | np.number) or not 0 <= slip <= 1:  # also refuses NaN
            raise ValueError(f"slip={slip!r} is not a probability; give a number from 0 to 1")
        cells = map.cells.ravel()
        rows, columns = map.cells.shape
        self.name, self.slip, self.map = map.name, float(slip), map
        self._rows, self._columns, self._cells = rows, columns, cells.size
        self._walls = cells == "#"
        self._neighbours = _neighbours(rows, columns)
        self._key_cells = np.flatnonzero(cells == "k").astype(np.int32)
        self._door_cells = np.flatnonzero(cells == "d").astype(np.int32)
        self._has_boxes, self._has_lava = bool((cells == "b").any()), bool((cells == "l").any())
        self._has_keys, self._has_doors = self._key_cells.size > 0, self._door_cells.size > 0
        self._has_bricks = bool(bricks)
        self.actions = MOVES + ("pick up",) * self._has_keys
        self._first_brick = len(self.actions)
        if bricks:
            self.actions += ("brick up", "brick down", "brick left", "brick right")
        self._outcome_table = np.array([1 - self.slip] + [self.slip / 4] * 4 if slip else [1.0])
        self.outcomes = len(self._outcome_table)
        self.start = GridState(
            agent=np.int32(np.flatnonzero(cells == "a")[0]),
            alive=np.bool_(True),
            carrying=np.bool_(False),
            keys=np.ones(self._key_cells.size, bool),
            doors=np.zeros(self._door_cells.size, bool),
            boxes=cells == "b" if self._has_boxes else np.zeros(0, bool),
            bricks=np.zeros(cells.size if bricks else 0, bool),
            lava=cells == "l" if self._has_lava else np.zeros(0, bool),
        )
        marks = {"k": "key", "d": "door", "b": "box", "l": "lava"}
        self.layout = Layout(
            (rows, columns),
            map.cells == "#",
            tuple(
                (marks[str(map.cells[r, c])], int(r), int(c))
                for r, c in np.argwhere(np.isin(map.cells, list(marks)))
            ),
        )

    def place(self, cells: Any, state: GridState | None = None) -> GridState:
        """The start state (or another single state) with the agent at each of these cells."""
        rest = (self.start if state is None else state)[1:]
        cells = np.asarray(cells, np.int32)
        parts = (np.broadcast_to(x, cells.shape + np.shape(x)) for x in rest)
        return GridState(cells, *parts)

    def states(self) -> GridState:
        free = ~(self._walls | np.isin(self.map.cells, ["b", "d", "l"]).ravel())
        return self.place(np.flatnonzero(free))

    def locate(self, states: GridState) -> np.ndarray:
        return np.stack(np.divmod(np.asarray(states.agent), self._columns), axis=-1)

    def spec(self) -> dict[str, Any]:
        rows = ["".join(row) for row in self.map.cells]
        return {
            "kind": "grid",
            "name": self.name,
            "map": rows,
            "slip": self.slip,
            "bricks": self._has_bricks,
        }

    def terminal(self, state: GridState) -> Any:
        return ~state.alive

    def probabilities(self, state: GridState, action: Any) -> Any:
        xp = namespace(state.agent, action)
        return xp.broadcast_to(
            xp.asarray(self._outcome_table), (*np.shape(state.agent), self.outcomes)
        )

    def step(self, state: GridState, action: Any, outcome: Any) -> GridState:
        xp = namespace(state.agent, action, outcome)
        state, action = _broadcast(xp, state, action, outcome)
        action = xp.where(
            outcome > 0, outcome - 1, action
        )  # chance 0: no slip; 1..4: one of the four moves
        new = self._pick_up(xp, self._move(xp, state, action), action)
        new = self._spread(xp, self._lay_brick(xp, new, action))
        return self._die(xp, new)

    def _move(self, xp: Any, state: GridState, action: Any) -> GridState:
        """Walk, push a box, open a door with the key; or stay where the way is blocked."""
        moves = xp.asarray(self._neighbours)
        direction = xp.where(action < len(MOVES), action, STAY)
        target = moves[state.agent, direction]
        blocked = xp.asarray(self._walls)[target]
        doors, boxes = state.doors, state.boxes
        if self._has_doors:
            here = target[..., None] == xp.asarray(self._door_cells)
            blocked = blocked | ((here & ~doors).any(-1) & ~state.carrying)
            doors = doors | (here & state.carrying[..., None])
        if self._has_bricks:
            blocked = blocked | _at(xp, state.bricks, target)
        if self._has_boxes:
            beyond = moves[target, direction]
            box = _at(xp, boxes, target)
            blocked = blocked | (box & self._jammed(xp, state, beyond))
            pushed = (box & ~blocked)[..., None]
            cells = xp.arange(self._cells)
            boxes = xp.where(
                pushed, (boxes & (cells != target[..., None])) | (cells == beyond[..., None]), boxes
            )
        agent = xp.where(blocked, state.agent, target)
        return state._replace(agent=agent, doors=doors, boxes=boxes)

    def _jammed(self, xp: Any, state: GridState, cell: Any) -> Any:
        """Whether a box cannot be pushed onto this cell: wall, box, brick or door (open or
        closed)."""
        fixed = self._walls | np.isin(np.arange(self._cells), self._door_cells)
        jammed = xp.asarray(fixed)[cell] | _at(xp, state.boxes, cell)
        return jammed | _at(xp, state.bricks, cell) if self._has_bricks else jammed

    def _pick_up(self, xp: Any, state: GridState, action: Any) -> GridState:
        if not self._has_keys:
            return state
        taken = state.keys & (state.agent[..., None] == xp.asarray(self._key_cells))
        taken = taken & (action == len(MOVES))[..., None]
        return state._replace(carrying=state.carrying | taken.any(-1), keys=state.keys & ~taken)

    def _lay_brick(self, xp: Any, state: GridState, action: Any) -> GridState:
        """A brick can lie on plain floor only: no wall, box, brick, lava, key, door or the agent
        itself."""
        if not self._has_bricks:
            return state
        direction = action - self._first_brick
        laying = direction >= 0
        target = xp.asarray(self._neighbours)[state.agent, xp.where(laying, direction, STAY)]
        taken = self._walls | np.isin(np.arange(self._cells), self._door_cells)
        laying = (
            laying
            & (target != state.agent)
            & ~xp.asarray(taken)[target]
            & ~_at(xp, state.bricks, target)
        )
        if self._has_boxes:
            laying = laying & ~_at(xp, state.boxes, target)
        if self._has_lava:
            laying = laying & ~_at(xp, state.lava, target)
        if self._has_keys:
            laying = laying & ~(
                state.keys & (target[..., None] == xp.asarray(self._key_cells))
            ).any(-1)
        brick = (xp.arange(self._cells) == target[..., None]) & laying[..., None]
        return state._replace(bricks=state.bricks | brick)

    def _spread(self, xp: Any, state: GridState) -> GridState:
        """Lava flows to every 4-neighbour that is not wall, brick, box or closed door."""
        if not self._has_lava:
            return state
        grid = state.lava.reshape(*state.lava.shape[:-1], self._rows, self._columns)
        row, column = xp.zeros_like(grid[..., :1, :]), xp.zeros_like(grid[..., :, :1])
        flow = (
            xp.concatenate([grid[..., 1:, :], row], -2)
            | xp.concatenate([row, grid[..., :-1, :]], -2)
            | xp.concatenate([grid[..., :, 1:], column], -1)
            | xp.concatenate([column, grid[..., :, :-1]], -1)
        ).reshape(state.lava.shape)
        flow = flow & ~xp.asarray(self._walls)
        if self._has_bricks:
            flow = flow & ~state.bricks
        if self._has_boxes:
            flow = flow & ~state.boxes
        if self._has_doors:
            is_door = xp.arange(self._cells)[:, None] == xp.asarray(self._door_cells)
            flow = flow & ~(is_door & ~state.doors[..., None, :]).any(-1)
        return state._replace(lava=state.lava | flow)

    def _die(self, xp: Any, state: GridState) -> GridState:
        """Death is one state, whatever the rest of the map."""
        if not self._has_lava:
            return state
        alive = state.alive & ~_at(xp, state.lava, state.agent)
        clear = (
            xp.where(alive.reshape(alive.shape + (1,) * (x.ndim - alive.ndim)), x, xp.zeros_like(x))
            for x in state
        )
        return GridState(*clear)._replace(alive=alive)

    def observe(self, state: GridState) -> Any:
        """One pixel a cell. What lies under something else shines through, so no two states look
        the same."""
        xp = namespace(state.agent)
        batch = np.shape(state.agent)
        base = np.where(self._walls[:, None], COLOURS["wall"], COLOURS["floor"]).astype(np.uint16)
        picture = xp.broadcast_to(xp.asarray(base), (*batch, self._cells, 3))
        cells = xp.arange(self._cells)
        for cell, is_open in zip(self._door_cells, xp.moveaxis(state.doors, -1, 0), strict=True):
            picture = _paint(xp, picture, (cells == cell) & ~is_open[..., None], "door")
            picture = _paint(xp, picture, (cells == cell) & is_open[..., None], "open")
        for cell, there in zip(self._key_cells, xp.moveaxis(state.keys, -1, 0), strict=True):
            picture = _paint(xp, picture, (cells == cell) & there[..., None], "key")
        if self._has_lava:
            picture = _paint(xp, picture, state.lava, "lava")
        if self._has_boxes:
            picture = _paint(xp, picture, state.boxes, "box")
        if self._has_bricks:
            picture = _paint(xp, picture, state.bricks, "brick")
        agent = cells == state.agent[..., None]
        if self._has_keys:
            picture = _paint(xp, picture, agent & state.carrying[..., None], "carrying")
            agent = agent & ~state.carrying[..., None]
        picture = _paint(xp, picture, agent, "agent")
        if self._has_lava:
            dead = xp.asarray(np.array(COLOURS["lava"], np.uint16))
            picture = xp.where(state.alive[..., None, None], picture, dead)
        return picture.reshape(*batch, self._rows, self._columns, 3).astype(np.uint8)


def _neighbours(rows: int, columns: int) -> np.ndarray:
    """`int32[cells, 5]`: the cell that each move leads to; beyond the edge, the cell itself."""
    r, c = np.divmod(np.arange(rows * columns), columns)
    out = [
        np.clip(r + dr, 0, rows - 1) * columns + np.clip(c + dc, 0, columns - 1)
        for dr, dc in OFFSETS
    ]
    return np.stack(out, axis=1).astype(np.int32)


def _broadcast(xp: Any, state: GridState, action: Any, outcome: Any) -> tuple[GridState, Any]:
    batch = np.broadcast_shapes(np.shape(state.agent), np.shape(action), np.shape(outcome))
    spread = (xp.broadcast_to(x, batch + np.shape(x)[np.ndim(state.agent) :]) for x in state)
    return GridState(*spread), xp.broadcast_to(xp.asarray(action), batch)


def _at(xp: Any, bitmap: Any, cell: Any) -> Any:
    """The bit of each bitmap at each cell."""
    return xp.take_along_axis(bitmap, cell[..., None], -1)[..., 0]


def _paint(xp: Any, picture: Any, mask: Any, thing: str) -> Any:
    """Three parts of the thing's colour over one part of what is beneath."""
    three_parts = xp.asarray(3 * np.array(COLOURS[thing], np.uint16))
    return xp.where(mask[..., None], (three_parts + picture) >> 2, picture)
