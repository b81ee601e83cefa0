"""The K-step channel p(s'|a, s) of a world: composed step by step, equal rows merged, unreachable
ends absent.

The dense tensor of all states, sequences and ends never exists. States within reach are numbered as
they are found (`explore`), and distributions over them are pushed forwards as sparse rows, one
action at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from .reach import Table, each, explore
from .worlds.world import State, World, take

LARGEST_CHANNEL = 2**27
"""Entries that the rows of one state's channel may take: 1 GiB."""
LARGEST_MATRIX = 2**27
"""Entries of one state's channel, zeros and all: 1 GiB."""
ALIKE = 4
"""How many times as many outcomes may be worked out in a step: most lead where others do."""
BLOCK = 2**22
"""Entries of the rows of several starts that are composed together."""
UNIT = 1e-14
"""Rows are merged where every entry rounds to the same multiple of this, a hundred times float64's
rounding."""

Sparse = Any
"""A `scipy.sparse.csr_array`, whose published types are too narrow for what it returns."""


@dataclass(frozen=True, eq=False)
class Channel:
    """What K actions do from one state: rows are sequences with equal rows merged, columns are end
    states."""

    matrix: np.ndarray
    """`float64[rows, ends]`: p(s'|a, s)"""
    sequences: np.ndarray
    """`int64[rows, K]`: one sequence for each row"""
    multiplicities: np.ndarray
    """`float64[rows]`: how many of the N^K sequences have this row; a source over rows divides
    evenly among them"""
    ends: np.ndarray
    """`int64[ends]`: numbers of the end states in the table"""
    slack: float
    """total variation between a row and any row merged into it, at most"""


def channel(world: World, state: State, horizon: int) -> tuple[Channel, State]:
    """The channel from one state (without batch dimension), and its end states as a batch."""
    table = explore(world, take(each(state, np.asarray), None), horizon, keep=True)
    result = next(channels(table, horizon))
    return result, take(table.states, result.ends)


def rows_of(world: World, state: State, sequences: np.ndarray) -> np.ndarray:
    """`float64[n, ends]`: p(s'|a, s) of these sequences only, `int[n, K]`, from one state, without
    empty columns."""
    sequences = np.asarray(sequences)
    table = explore(world, take(each(state, np.asarray), None), sequences.shape[1])
    steps = _steps(table).tocsc()
    rows: Sparse = sparse.csr_array(
        (
            np.ones(len(sequences)),
            (np.arange(len(sequences)), np.full(len(sequences), table.starts[0])),
        ),
        shape=(len(sequences), table.size),
    )
    for actions in sequences.T:
        order = np.argsort(actions, kind="stable")
        taken, counts = np.unique(actions, return_counts=True)
        parts = np.split(order, counts.cumsum()[:-1])
        after = [
            rows[part] @ steps[:, a * table.size : (a + 1) * table.size]
            for a, part in zip(taken, parts, strict=True)
        ]
        rows = sparse.csr_array(sparse.vstack(after))[np.argsort(order)]
    dense = rows[:, np.unique(rows.indices)].toarray()
    return dense[:, dense.any(axis=0)]


def channels(table: Table, horizon: int) -> Iterator[Channel]:
    """The channel from every start of the table, in order."""
    n = len(table.starts)
    start = _Rows(
        data=np.ones(n),
        columns=table.starts,
        pointers=np.arange(n + 1),
        owners=np.arange(n),
        sequences=np.zeros((n, 0), np.int64),
        multiplicities=np.ones(n),
        slack=0.0,
    )
    return _composed(start, _steps(table), horizon)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of the channels of several starts, after some steps: the entries that are not zero, row
    by row."""

    data: np.ndarray
    columns: np.ndarray
    """the number of each entry's state, ascending in every row"""
    pointers: np.ndarray
    """`int[rows + 1]`: where the entries of each row begin and end"""
    owners: np.ndarray
    """`int64[rows]`: the start that each row belongs to, in ascending order"""
    sequences: np.ndarray
    multiplicities: np.ndarray
    slack: float

    def entries(self, which: Any) -> tuple[np.ndarray, np.ndarray]:
        """Places of the entries of these rows, one row after the other, and the pointers to
        them."""
        begin, lengths = self.pointers[:-1][which], np.diff(self.pointers)[which]
        pointers = np.concatenate([[0], np.cumsum(lengths)])
        return np.arange(pointers[-1]) + np.repeat(begin - pointers[:-1], lengths), pointers

    def pick(self, which: Any) -> "_Rows":
        places, pointers = self.entries(which)
        parts = self.owners[which], self.sequences[which], self.multiplicities[which]
        return _Rows(self.data[places], self.columns[places], pointers, *parts, self.slack)


def _steps(table: Table) -> Sparse:
    """`float64[size, actions * size]`: the one-step channels of all actions, side by side; ends
    lead nowhere."""
    m, actions, outcomes = table.successors.shape
    odds = np.ones(table.successors.shape) if table.odds is None else table.odds
    columns = table.successors + table.size * np.arange(actions)[:, None]
    pointers = np.minimum(np.arange(table.size + 1), m) * (actions * outcomes)
    steps = sparse.csr_array(
        (odds.ravel(), columns.ravel(), pointers), shape=(table.size, actions * table.size)
    )
    steps.sum_duplicates()
    steps.eliminate_zeros()
    return steps


def _composed(block: _Rows, steps: Sparse, left: int) -> Iterator[Channel]:
    """Take the steps that are left, in halves where the block has grown too large for the
    memory."""
    while left:
        entries, several = (
            len(block.data) * (steps.shape[1] // steps.shape[0]),
            block.owners[0] != block.owners[-1],
        )
        # Of outcomes, those that lead to one state are added up: there are no more than states.
        outcomes = min(
            int(np.diff(steps.indptr)[block.columns].sum()), len(block.owners) * steps.shape[1]
        )
        if several and (entries > BLOCK or outcomes > LARGEST_CHANNEL):
            middle = np.searchsorted(block.owners, (block.owners[0] + block.owners[-1] + 1) // 2)
            for half in (slice(0, middle), slice(middle, None)):
                yield from _composed(block.pick(half), steps, left)
            return
        if entries > LARGEST_CHANNEL or outcomes > ALIKE * LARGEST_CHANNEL:
            raise ValueError(
                f"the channel of a state is too large to enumerate: {len(block.owners):,} "
                "different sequences with "
                f"{len(block.data):,} entries, {left} steps before the end; give a smaller "
                "horizon, or learn it with "
                "emp.train"
            )
        block, left = _merged(_advanced(block, steps)), left - 1
    yield from _separated(block, steps.shape[0])


def _advanced(block: _Rows, steps: Sparse) -> _Rows:
    """Every row followed by every action: a product with all of them side by side, cut into rows
    again."""
    n, size = len(block.owners), steps.shape[0]
    after = sparse.csr_array((block.data, block.columns, block.pointers), shape=(n, size)) @ steps
    after.sort_indices()
    count = steps.shape[1] // size
    action, column = np.divmod(after.indices, size)
    row = np.repeat(np.arange(n) * count, np.diff(after.indptr)) + action
    actions = np.tile(np.arange(count), n)[:, None]
    return _Rows(
        data=after.data,
        columns=column,
        pointers=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n * count))]),
        owners=np.repeat(block.owners, count),
        sequences=np.concatenate([np.repeat(block.sequences, count, axis=0), actions], axis=1),
        multiplicities=np.repeat(block.multiplicities, count),
        slack=block.slack,
    )


def _merged(block: _Rows) -> _Rows:
    """Keep one of several equal rows.

    Rows are compared by a random 64-bit sum of their entries in units of `UNIT`, then entry by
    entry. The rows kept are true rows, so merging never raises a capacity; `slack` bounds by how
    much it may lower it.
    """
    size = int(block.columns.max()) + 1
    codes = np.random.default_rng(0).integers(2**63, size=size, dtype=np.uint64)
    units = np.rint(block.data / UNIT).astype(np.uint64) + np.uint64(1)
    sums = np.add.reduceat(units * codes[block.columns], block.pointers[:-1])
    sums += block.owners.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    _, first, inverse = np.unique(sums, return_index=True, return_inverse=True)
    if len(first) == len(sums):
        return block
    kept = first[inverse]
    places, pointers = block.entries(kept)
    pairs = (
        (block.owners[kept], block.owners),
        (pointers, block.pointers),
        (block.columns[places], block.columns),
    )
    same = all(np.array_equal(a, b) for a, b in pairs)
    distance = (
        np.add.reduceat(np.abs(block.data[places] - block.data), pointers[:-1]).max() / 2
        if same
        else 1.0
    )
    if distance > UNIT * size:
        return block  # two different rows with one sum: never seen, and no harm in keeping all rows
    order = np.sort(first)
    counts = np.bincount(kept, weights=block.multiplicities, minlength=len(sums))
    return replace(
        block.pick(order), multiplicities=counts[order], slack=block.slack + float(distance)
    )


def _separated(block: _Rows, size: int) -> Iterator[Channel]:
    """One dense channel for each start, of the states that it reaches among `size`."""
    row = np.repeat(np.arange(len(block.owners)), np.diff(block.pointers))
    # A state counts once for each start that reaches it.
    reached, column = np.unique(block.owners[row] * size + block.columns, return_inverse=True)
    first = np.flatnonzero(np.diff(block.owners, prepend=-1))
    firsts = np.searchsorted(reached, block.owners[first] * size)
    bounds = zip(
        pairwise([*first, len(block.owners)]), pairwise([*firsts, len(reached)]), strict=True
    )
    for (begin, end), (left, right) in bounds:
        if (end - begin) * (right - left) > LARGEST_MATRIX:
            raise ValueError(
                f"the channel of a state is too large to solve: {end - begin:,} different "
                f"sequences, {right - left:,} "
                "ends; give a smaller horizon, or learn it with emp.train"
            )
        part, own = slice(block.pointers[begin], block.pointers[end]), slice(begin, end)
        matrix = np.zeros((end - begin, right - left))
        matrix[row[part] - begin, column[part] - left] = block.data[part]
        ends = reached[left:right] % size
        yield Channel(matrix, block.sequences[own], block.multiplicities[own], ends, block.slack)
