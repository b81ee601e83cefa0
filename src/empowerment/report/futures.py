"""What follows from each state: where the exact and the learned source end up, and the decoder's
plans."""

from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..exact import ends
from ..worlds.world import State, World, concatenate, identify, leaves, take
from .packing import pack, pack_shares

SAMPLES = 500
"""Sequences drawn from the learned source at each state."""
BLOCK = 4096
"""Sequences drawn, or planned, at a time."""


class Programs(NamedTuple):
    """Compiled once for all worlds of the same size."""

    encode: Any
    sample: Any
    plan: Any


@cache
def _programs() -> Programs:
    import equinox as eqx

    return Programs(
        encode=eqx.filter_jit(lambda m, frames: m.representation(frames)),
        sample=eqx.filter_jit(
            lambda m, f, rows, key: m.source.sample(m.source.context(f, rows), key=key)
        ),
        plan=eqx.filter_jit(lambda m, f, start, end: m.read(f, start, end)),
    )


class Goals(NamedTuple):
    """One end state for each end cell of one state: the one that most sequences lead to."""

    cells: np.ndarray
    states: State


def cells_of(world: World, states: State) -> np.ndarray:
    """The cell of each state on the layout, row by row; one past the last where an episode has
    ended."""
    assert world.layout is not None  # only worlds with a layout come here
    rows, columns = world.layout.shape
    places = np.asarray(world.locate(states))
    return np.where(
        np.asarray(world.terminal(states)),
        rows * columns,
        places[..., 0] * columns + places[..., 1],
    )


def exact_futures(world: World, states: State, horizon: int) -> tuple[list[str], list[Goals]]:
    """The optimal source visits all end states of a deterministic world equally (appendix A):
    shares of each cell."""
    texts, goals = [], []
    for i in range(len(leaves(states)[0])):
        reached, paths = ends(world, take(states, i), horizon)
        cells = cells_of(world, reached)
        texts.append(_shares_text(cells))
        goals.append(_representatives(world, cells, reached, paths))
    return texts, goals


def _shares_text(cells: np.ndarray) -> str:
    """Cells and their shares, two characters each."""
    found, counts = np.unique(cells, return_counts=True)
    return pack(np.stack([found, pack_shares(counts / counts.sum())], axis=1).ravel())


def _representatives(world: World, cells: np.ndarray, reached: State, weights: np.ndarray) -> Goals:
    order = np.lexsort((-weights, cells))
    found, first = np.unique(cells[order], return_index=True)
    chosen = order[first]
    living = ~np.asarray(world.terminal(take(reached, chosen)))
    return Goals(found[living], take(reached, chosen[living]))


def learned_futures(estimator: Any, states: State, seed: int = 0) -> tuple[list[str], list[Goals]]:
    """Shares of each end cell among sequences drawn from the learned source and played."""
    from ..variational.estimator import play

    world, rng = estimator.world, np.random.default_rng(seed)
    texts, goals = [], []
    for i, actions in enumerate(_draw(estimator, np.asarray(world.observe(states)), seed)):
        reached = play(world, take(states, i), actions, rng)
        cells = cells_of(world, reached)
        texts.append(_shares_text(cells))
        _, first, counts = np.unique(identify(reached), return_index=True, return_counts=True)
        goals.append(_representatives(world, cells[first], take(reached, first), counts))
    return texts, goals


def _draw(estimator: Any, frames: np.ndarray, seed: int) -> np.ndarray:
    """`int[n, SAMPLES, K]`: sequences from the source, many states at a time."""
    import jax

    from ..variational.keys import seed_key

    model, features = estimator.model, _features(estimator, frames)
    rows = np.repeat(np.arange(len(frames), dtype=np.int32), SAMPLES)
    keys = jax.random.split(seed_key(seed, "futures"), -(-len(rows) // BLOCK))
    drawn = [
        np.asarray(_programs().sample(model, features, block, key))[:count]
        for key, (block, count) in zip(keys, _blocks(rows), strict=True)
    ]
    return np.concatenate(drawn).reshape(len(frames), SAMPLES, -1)


def plans(estimator: Any, states: State, goals: list[Goals]) -> tuple[list[str], list[str]]:
    """For each state the cells that can be chosen as goals, and for each of them the decoder's
    plan.

    A plan is one character for whether it ends in the very goal state, then for every step one for
    the action and two for the cell that it leads to, without chance.
    """
    world, n = estimator.world, len(leaves(states)[0])
    owner = np.repeat(np.arange(n), [len(g.cells) for g in goals])
    if not owner.size:  # every end is a death
        return [""] * n, [""] * n
    targets = concatenate([g.states for g in goals])
    actions = _decode(estimator, states, targets, owner)
    steps, end = [], take(states, owner)
    for action in actions.T:
        end = world.step(end, action, np.zeros(len(owner), np.int32))
        steps.append(cells_of(world, end))
    hit = identify(end) == identify(targets)
    path = np.stack(steps, axis=1)
    moves = np.stack([actions, path // 64, path % 64], axis=-1).reshape(len(owner), -1)
    text, size = pack(np.concatenate([hit[:, None], moves], axis=1).ravel(), 1), 1 + moves.shape[1]
    first = size * np.searchsorted(owner, np.arange(n + 1))
    return [pack(g.cells) for g in goals], [text[a:b] for a, b in pairwise(first)]


def _decode(estimator: Any, states: State, targets: State, owner: np.ndarray) -> np.ndarray:
    """`int[pairs, K]`: what `estimator.plan` gives, for many pairs of start and goal; each frame is
    encoded once."""
    every = concatenate([states, targets])
    _, first, index = np.unique(identify(every), return_index=True, return_inverse=True)
    features = _features(estimator, np.asarray(estimator.world.observe(take(every, first))))
    plan = _programs().plan
    starts, ends_ = index[owner].astype(np.int32), index[len(leaves(states)[0]) :].astype(np.int32)
    blocks = zip(_blocks(starts), _blocks(ends_), strict=True)
    return np.concatenate(
        [np.asarray(plan(estimator.model, features, a, b))[:count] for (a, count), (b, _) in blocks]
    )


def _features(estimator: Any, frames: np.ndarray) -> Any:
    """The representation of each frame, padded to a power of two so that few sizes are compiled."""
    encode = _programs().encode
    parts = [
        np.asarray(encode(estimator.model, block))[:count] for block, count in _blocks(frames, 256)
    ]
    room = (1 << (len(frames) - 1).bit_length()) - len(frames)
    return np.pad(np.concatenate(parts), [(0, room), (0, 0)])


def _blocks(rows: np.ndarray, size: int = BLOCK) -> list[tuple[np.ndarray, int]]:
    """Equally long blocks, the last one padded, each with how many of its rows count; one
    compilation serves all."""
    out = []
    for i in range(0, len(rows), size):
        block = rows[i : i + size]
        padding = [(0, size - len(block))] + [(0, 0)] * (block.ndim - 1)
        out.append((np.pad(block, padding), len(block)))
    return out
