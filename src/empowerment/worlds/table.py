"""Worlds given as a table of transitions."""

from typing import Any

import numpy as np

from ..distributions import sum_tolerance
from .world import Layout, World, namespace

DEEPEST = 500
"""Levels of a tree, which then has 125,751 nodes."""


class TableWorld(World):
    """States are numbers 0..S-1; outcome c of action a in state s leads to `successors[s, a,
    c]`."""

    def __init__(
        self,
        successors: np.ndarray,
        odds: np.ndarray,
        name: str = "table",
        actions: tuple[str, ...] | None = None,
        start: int = 0,
        layout: Layout | None = None,
        places: np.ndarray | None = None,
        terminals: np.ndarray | None = None,
        shown: np.ndarray | None = None,
        spec: dict[str, Any] | None = None,
        frames: np.ndarray | None = None,
    ):
        """`frames`: what is seen in each state; by default its number, as a vector with a single
        1."""
        self.successors, self.odds, self.name = successors.astype(np.int32), odds, name
        self.size, n, self.outcomes = successors.shape
        self.actions = tuple(f"action {i}" for i in range(n)) if actions is None else actions
        self.start = np.int32(start)
        self.layout, self._places = layout, places
        self._terminals = np.zeros(self.size, bool) if terminals is None else terminals
        self._spec, self._frames = spec, frames
        self._shown = (
            np.arange(self.size, dtype=np.int32) if shown is None else shown.astype(np.int32)
        )

    def table(self) -> dict[str, np.ndarray]:
        """Successors and odds, rounded: other machines may differ in the last digits."""
        return {"successors": self.successors, "odds": self.odds.round(9)}

    def step(self, state: Any, action: Any, outcome: Any) -> Any:
        return namespace(state, action, outcome).asarray(self.successors)[state, action, outcome]

    def probabilities(self, state: Any, action: Any) -> Any:
        return namespace(state, action).asarray(self.odds)[state, action]

    def observe(self, state: Any) -> Any:
        xp = namespace(state)
        if self._frames is not None:
            return xp.asarray(self._frames)[state]
        return (state[..., None] == xp.arange(self.size)).astype(np.float32)

    def states(self) -> np.ndarray:
        return self._shown

    def spec(self) -> dict[str, Any] | None:
        return self._spec

    def terminal(self, state: Any) -> Any:
        return namespace(state).asarray(self._terminals)[state]

    def locate(self, states: Any) -> np.ndarray:
        if self._places is None:
            return super().locate(states)
        return self._places[np.asarray(states)]


def from_transitions(transitions: Any, name: str = "table") -> TableWorld:
    """A world from probabilities `T[s, a, s']`, or from a table of successors `T[s, a]` of whole
    numbers.

    >>> import numpy as np
    >>> from_transitions(np.array([[0, 1], [1, 0]])).deterministic
    True
    """
    table = np.asarray(transitions)
    tolerance = sum_tolerance(table.dtype, table.shape[-1] if table.ndim else 1)
    if table.ndim == 2 and np.issubdtype(table.dtype, np.integer):
        size = len(table)
        if table.size == 0 or table.min() < 0 or table.max() >= size:
            found = f"reach from {table.min()} to {table.max()}" if table.size else "are missing"
            raise ValueError(
                f"transitions is a table of successors for {size} states, so its entries must lie "
                f"in 0..{size - 1}; they {found}"
            )
        return TableWorld(table[:, :, None], np.ones((*table.shape, 1)), name)
    if table.ndim != 3 or table.shape[0] != table.shape[2] or table.size == 0:
        hint = "; for a single channel use emp.capacity" if table.ndim == 2 else ""
        raise ValueError(
            f"transitions has shape {table.shape} and type {table.dtype}; give T[s, a, s'] of "
            "probabilities "
            f"(first and last length equal) or T[s, a] of whole numbers{hint}"
        )
    table = table.astype(np.float64)
    sums = table.sum(-1)
    bad = np.argwhere(
        ~(np.isfinite(table).all(-1) & (table >= 0).all(-1) & (np.abs(sums - 1) < tolerance))
    )
    if len(bad):
        s, a = bad[0]
        raise ValueError(
            f"transitions[{s}, {a}] is not a distribution (sum {sums[s, a]:.6g}); "
            "make its entries non-negative and sum to one"
        )
    order = np.argsort(table == 0, axis=-1, kind="stable")[
        ..., : max(int((table > 0).sum(-1).max()), 1)
    ]
    odds = np.take_along_axis(table, order, -1)
    return TableWorld(order, odds / odds.sum(-1, keepdims=True), name)


def tree(depth: int = 5) -> TableWorld:
    """Appendix A's tree: each node leads up or down, and different paths meet. The last level
    absorbs."""
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= DEEPEST:
        raise ValueError(
            f"depth={depth!r} is not a depth of a tree; give a whole number from 1 to {DEEPEST}"
        )
    nodes = [(level, ups) for level in range(depth + 1) for ups in range(level + 1)]
    index = {node: i for i, node in enumerate(nodes)}
    successors = np.array(
        [
            [index.get((level + 1, ups + 1), i), index.get((level + 1, ups), i)]
            for i, (level, ups) in enumerate(nodes)
        ]
    )
    places = np.array([(depth + level - 2 * ups, level) for level, ups in nodes])
    layout = Layout((2 * depth + 1, depth + 1), np.zeros((2 * depth + 1, depth + 1), bool))
    return TableWorld(
        successors[:, :, None],
        np.ones((*successors.shape, 1)),
        "tree",
        ("up", "down"),
        layout=layout,
        places=places,
        spec={"kind": "tree", "depth": depth},
    )
