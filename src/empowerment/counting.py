"""Counting distinct end states: empowerment of deterministic worlds is ln n(s) (appendix A).

The sets of reachable states are held in one of two ways, chosen by measured cost. Sparse rows suit
many states with few ends each; bitsets suit sets that fill a good part of a small world. Both work
in blocks that bound the memory.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy import sparse

from .reach import Progress, Table, look_alikes

BLOCK = 2**20
"""Members of all sparse sets, or words of all bitsets, that one block may hold."""
SPARSE_COST, BITSET_COST = 4.0, 0.25
"""Nanoseconds for each member joined to a sparse set and each word joined to a bitset; only the
ratio matters."""

Sparse = Any
"""A `scipy.sparse.csr_array`, whose published types are too narrow for what it returns."""


def count_ends(table: Table, horizon: int, progress: Progress = lambda done: None) -> np.ndarray:
    """n(s) of appendix A for every start: how many states can be reached in exactly `horizon`
    actions."""
    starts, kinds = look_alikes(table, horizon)
    sets = sparse.csr_array(
        (np.ones(len(starts), bool), starts, np.arange(len(starts) + 1, dtype=np.int32)),
        shape=(len(starts), table.size),
    )
    steps = _steps(table)
    if table.closed and _bitsets_are_cheaper(sets, steps, horizon):
        counts = _count_with_bitsets(table.successors[:, :, 0], horizon)[starts]
        progress(len(kinds))
    else:
        counts = _sizes(
            sets, steps, horizon, lambda done: progress(done * len(kinds) // len(starts))
        )
    return counts[kinds]


def _steps(table: Table) -> Sparse:
    """`bool[size, size]`: whether some action leads from one state to another; ends lead
    nowhere."""
    m, actions, _ = table.successors.shape
    successors = table.successors.ravel()
    pointers = np.minimum(np.arange(table.size + 1, dtype=np.int32), m) * np.int32(actions)
    return sparse.csr_array(
        (np.ones(len(successors), bool), successors, pointers), shape=(table.size, table.size)
    )


def _sizes(sets: Sparse, steps: Sparse, left: int, progress: Progress) -> np.ndarray:
    """Take the steps that are left, R_{k+1} = T(R_k), in halves where the block has outgrown its
    size."""
    while left:
        n = sets.shape[0]
        if sets.nnz > BLOCK and n > 1:
            halves = sets[: n // 2], sets[n // 2 :]
            return np.concatenate([_sizes(half, steps, left, progress) for half in halves])
        sets, left = sets @ steps, left - 1
    progress(sets.shape[0])
    return np.diff(sets.indptr)


def _bitsets_are_cheaper(sets: Sparse, steps: Sparse, horizon: int) -> bool:
    """Walk from a few starts until all of them together would cost more than bitsets, or to the
    end."""
    n, size = sets.shape
    each_step = steps.nnz / size
    budget = (
        BITSET_COST * steps.nnz * (size / 64 + 32) * horizon
    )  # 32: the price of finding a row at all
    sample = sets[:: max(1, n // 8)]
    scale, spent = SPARSE_COST * each_step * n / sample.shape[0], 0.0
    for _ in range(horizon):
        spent += scale * sample.nnz
        if spent > budget:
            return True
        sample = sample @ steps
    return False


def _count_with_bitsets(successors: np.ndarray, horizon: int) -> np.ndarray:
    """R_{k+1}(s) = ∪_a R_k(T(s, a)) for all states of a closed table.

    Blocks are of ends, which are independent, and run on all cores: NumPy releases the interpreter
    lock here.
    """
    size = len(successors)
    ends = 64 * max(1, BLOCK // size)
    firsts = range(0, size, ends)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(
            lambda i: _bitset_sizes(successors, i, min(ends, size - i), horizon), firsts
        )
        return np.sum(list(parts), axis=0)


def _bitset_sizes(successors: np.ndarray, first: int, ends: int, horizon: int) -> np.ndarray:
    """How many of the ends numbered from `first` on each state reaches."""
    size, actions = successors.shape
    bits = np.arange(ends)
    sets = np.zeros((size, -(-ends // 64)), np.uint64)
    sets[first + bits, bits // 64] = np.uint64(1) << (bits % 64).astype(np.uint64)
    joined, moved = np.empty_like(sets), np.empty_like(sets)
    for _ in range(horizon):
        np.take(sets, successors[:, 0], axis=0, out=joined, mode="clip")
        for a in range(1, actions):
            joined |= np.take(sets, successors[:, a], axis=0, out=moved, mode="clip")
        if np.array_equal(joined, sets):
            break  # nothing will change any more
        sets, joined = joined, sets
    return np.bitwise_count(sets).sum(axis=1, dtype=np.int64)
