"""States within reach of some starts, numbered as they are found, and where every action leads from
them."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .worlds.world import State, World, blocks, concatenate, identify, leaves, take

Progress = Callable[[int], object]
"""Called with how much more is done."""

LARGEST_TABLE = 2**30
"""Bytes that the states within reach and their successors may take: 2 million lava states, 14
million cells."""
BLOCK, BLOCK_BYTES = 2**16, 2**28
"""States stepped together at most, and what their outcomes may take, which bounds the memory of all
else."""
SLOT_BITS = 17
"""Slots for telling kinds of states apart, half a MiB."""


@dataclass(frozen=True, eq=False)
class Table:
    """Where every action leads, from every state that matters; states are numbered as they were
    found."""

    successors: np.ndarray
    """`int32[m, actions, outcomes]`: for the m states fewer than K steps away from a start"""
    odds: np.ndarray | None
    """`float64[m, actions, outcomes]`, or None where nothing is random"""
    starts: np.ndarray
    """`int32[n]`: the number of each start"""
    size: int
    """how many states are at most K steps away; those from m on are ends only"""
    labels: np.ndarray | None
    """`uint64[size]`: keys of the states, or None where eight bytes do not hold a state"""
    states: State | None
    """batch of all `size` states, or None where `explore` was not asked to keep them"""

    @property
    def closed(self) -> bool:
        """No state leads out of the table."""
        return self.size == len(self.successors)


def closure(
    world: World, starts: State, most: int, progress: Progress = lambda done: None
) -> Table:
    """Every state that can ever be reached from the starts; a table that is not closed where there
    are more than `most` of them."""
    return explore(world, starts, sys.maxsize, keep=True, most=most, progress=progress)


def explore(
    world: World,
    starts: State,
    horizon: int,
    *,
    keep: bool = False,
    most: int | None = None,
    progress: Progress = lambda done: None,
) -> Table:
    """Number all states at most `horizon` steps away from the starts, level by level, with their
    successors.

    States are compared as a whole. Outcomes of probability zero are left out. Beyond `most`
    states no more are looked for. `progress` is called with the number of states whose
    successors were found. A ValueError says how many states there are where they exceed
    `LARGEST_TABLE` bytes.
    """
    if world.continuous is not None:
        raise ValueError(
            f"world {world.name!r} has continuous actions, which cannot be enumerated; learn on it "
            "with emp.train"
        )
    branches = len(world.actions) * world.branches
    own = sum(x[:1].nbytes for x in leaves(starts))
    if own * len(leaves(starts)[0]) > LARGEST_TABLE:
        raise ValueError(
            f"world {world.name!r} is too large to enumerate: {len(leaves(starts)[0]):,} states of "
            f"{own:,} bytes; give "
            "fewer states=, or learn it with emp.train"
        )
    numbers = _Numbers()
    keys = identify(starts)
    known, first = numbers(keys)
    frontier = take(starts, first)
    found, rows, odds = [frontier], [], []
    per_key = 8 if keys.dtype == np.uint64 else 150  # a dictionary's entry
    per_state, together = (
        per_key + own + 12 * branches,
        min(BLOCK, max(BLOCK_BYTES // (own * branches), 1)),
    )
    for depth in range(horizon):
        level, before = [], numbers.count
        for block in blocks(frontier, together):
            following, probabilities = _outcomes(world, block)
            reached, first = numbers(identify(following))
            level.append(take(following, first))
            rows.append(reached.reshape(-1, len(world.actions), world.branches))
            odds.append(probabilities)
            progress(len(leaves(block)[0]))
            if numbers.count * per_state > LARGEST_TABLE:
                raise ValueError(
                    f"world {world.name!r} is too large to enumerate: {numbers.count:,} states "
                    "found after "
                    f"{depth + 1} of {horizon} steps; give fewer states=, a smaller horizon, or "
                    "learn it with emp.train"
                )
        if numbers.count == before or (most is not None and numbers.count > most):
            break
        frontier = concatenate(level)
        if keep:
            found.append(frontier)
    return Table(
        successors=np.concatenate(rows),
        odds=None if world.deterministic else np.concatenate(odds),
        starts=known,
        size=numbers.count,
        labels=numbers.labels(),
        states=concatenate(found) if keep else None,
    )


def look_alikes(table: Table, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts whose surroundings are shifted copies of each other: one of each kind, and the kind of
    every start.

    Two states are alike for one step if every outcome shifts their labels by the same amount with
    the same probability, and for k + 1 steps if their successors are also alike for k steps. By
    induction every sequence then shifts both labels alike, so their K-step channels are equal up
    to the names of the ends. In an open room of any size all cells far from the walls are alike.
    Rows are compared by a random sum first and then entry by entry.
    """
    unique, starts = np.unique(table.starts, return_inverse=True)
    if table.labels is None:
        return unique, starts
    m = len(table.successors)
    onward = table.successors.reshape(m, -1).T.astype(
        np.intp, order="C"
    )  # indexing converts other types each time
    facts = [table.labels[onward] - table.labels[:m]]
    if table.odds is not None:
        facts.append(table.odds.reshape(m, -1).T.copy().view(np.uint64))
    shift = kinds = _kinds(np.concatenate(facts))
    for _ in range(horizon - 1):
        if _count(kinds) > m // 2:
            return unique, starts  # too few alike to be worth more time
        before = np.zeros(table.size, np.uint32)  # of ends that lead nowhere no more is asked
        before[:m] = kinds
        kinds = _kinds(np.concatenate([shift[None], before[onward]]))
        if np.array_equal(kinds, before[:m]):
            break  # and so for ever
    _, first, inverse = np.unique(kinds[unique], return_index=True, return_inverse=True)
    return unique[first], inverse[starts]


def _kinds(columns: np.ndarray, attempt: int = 0) -> np.ndarray:
    """For each column of numbers (`uint32` or `uint64`), the last column that is equal to it,
    `uint32[n]`.

    Columns that fall into one of a few slots by a random sum are compared entry by entry with the
    last one there; those that differ from it try again with other sums, and after many attempts
    stand for themselves: columns of one kind are equal always. Linear in time where there are few
    kinds.
    """
    height, n = columns.shape
    if attempt == 32:
        return np.arange(n, dtype=np.uint32)
    bits = min(SLOT_BITS, n.bit_length() + 3)
    codes = np.random.default_rng(attempt).integers(
        2**63, size=height, dtype=np.uint64
    ) | np.uint64(1)
    sums = codes.astype(columns.dtype) @ columns
    slot = (sums >> sums.dtype.type(8 * sums.itemsize - bits)).astype(np.intp)
    slots = np.empty(2**bits, np.uint32)
    slots[slot] = np.arange(n, dtype=np.uint32)
    one = slots[slot]
    rest = np.flatnonzero(_differing(columns, one))
    if len(rest):
        one[rest] = rest[_kinds(columns[:, rest], attempt + 1)]
    return one


def _differing(columns: np.ndarray, others: np.ndarray) -> np.ndarray:
    """`bool[n]`: whether each column differs from the other one, in blocks that bound the
    memory."""
    blocks = (slice(i, i + BLOCK) for i in range(0, len(others), BLOCK))
    return np.concatenate(
        [(columns[:, b] != columns.take(others[b], axis=1)).any(axis=0) for b in blocks]
    )


def _count(kinds: np.ndarray) -> int:
    return int(np.count_nonzero(kinds == np.arange(len(kinds), dtype=np.uint32)))


class _Numbers:
    """Gives each new key the next number. Short keys are looked up in a sorted array, long ones in
    a dictionary."""

    def __init__(self) -> None:
        self.count = 0
        self._keys, self._values = np.zeros(0, np.uint64), np.zeros(0, np.int32)
        self._book: dict[bytes, int] = {}
        self._address: np.ndarray | None = None
        self._shift = np.uint64(0)

    def __call__(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of each key, `int32[n]`, and the positions where the new ones first occur, in
        order."""
        before = self.count
        if keys.dtype == np.uint64:
            values = self._look_up(keys)
        else:
            book = self._book
            values = np.array([book.setdefault(key, len(book)) for key in keys.tolist()], np.int32)
            self.count = len(book)
        if self.count == before:
            return values, np.zeros(0, np.int64)
        highest = np.maximum.accumulate(np.concatenate([[before - 1], values]))
        return values, np.flatnonzero(values > highest[:-1])

    def labels(self) -> np.ndarray | None:
        """The short keys in the order of their numbers."""
        if self._book:
            return None
        labels = np.empty_like(self._keys)
        labels[self._values] = self._keys
        return labels

    def _look_up(self, keys: np.ndarray) -> np.ndarray:
        if not self.count:
            return self._learn(keys)
        places = self._places(keys)
        values = self._values[places]
        missing = np.flatnonzero(self._keys[places] != keys)
        if len(missing):
            values[missing] = self._learn(keys[missing])
        return values

    def _places(self, keys: np.ndarray) -> np.ndarray:
        """Where each key stands among the sorted ones, if it is there at all.

        Keys that lie close together, as those of cells do, are found by address, several times
        faster.
        """
        if self._address is None:
            places = np.searchsorted(self._keys, keys)
            places[places == self.count] = 0
            return places
        address = (keys - self._keys[0]) >> self._shift
        address[address >= len(self._address)] = 0
        return self._address[address]

    def _learn(self, keys: np.ndarray) -> np.ndarray:
        new, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        values = np.empty(len(new), np.int32)
        values[np.argsort(first)] = np.arange(self.count, self.count + len(new))
        joined = np.concatenate([self._keys, new])
        order = np.argsort(joined, kind="stable")
        self._keys, self._values = joined[order], np.concatenate([self._values, values])[order]
        self.count += len(new)
        self._make_addresses()
        return values[inverse]

    def _make_addresses(self) -> None:
        """Drop the low bits in which no two keys differ; what is left is an address where it is
        small enough."""
        differing = int(np.bitwise_or.reduce(self._keys ^ self._keys[0]))
        self._shift = np.uint64(max((differing & -differing).bit_length() - 1, 0))
        addresses = (self._keys - self._keys[0]) >> self._shift
        self._address = None
        if addresses[-1] < 4 * self.count + 2**10:
            self._address = np.zeros(int(addresses[-1]) + 1, np.int64)
            self._address[addresses] = np.arange(self.count)


def _outcomes(world: World, states: State) -> tuple[State, np.ndarray | None]:
    """All outcomes of all actions in every state, as one flat batch, and their probabilities."""
    n, actions, outcomes = (
        len(leaves(states)[0]),
        np.arange(len(world.actions)),
        np.arange(world.branches),
    )
    after = world.step(take(states, np.s_[:, None, None]), actions[:, None], outcomes)
    shape = (n, len(actions), len(outcomes))
    flat = each(after, lambda x: np.asarray(x).reshape((np.prod(shape), *x.shape[3:])))
    if world.deterministic:
        return flat, None
    odds = np.broadcast_to(world.probabilities(take(states, np.s_[:, None]), actions), shape)
    if odds.all():
        return flat, odds
    # An outcome that cannot happen is replaced by the likeliest one, so that it adds no state.
    chosen = np.where(odds > 0, outcomes, odds.argmax(-1, keepdims=True))
    first = np.arange(0, chosen.size, len(outcomes)).reshape(*shape[:2], 1)
    return take(flat, (first + chosen).ravel()), odds


def each(states: State, function: Callable) -> State:
    """Apply a function to every array of a batch of states."""
    return type(states)(*map(function, states)) if isinstance(states, tuple) else function(states)
