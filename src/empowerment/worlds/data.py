"""Worlds from logged transitions: the table of what was counted, and how sure it is."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..limits import refuse_beyond
from .memory import Memory, ObservedTable, shrunk
from .world import World

REPEATING = 0.5
"""Observations are taken not to repeat where more than this share of them are different."""
LARGEST_FILE = 2**33
"""Bytes of a file of transitions."""
PARTS = ("x", "a", "x_next")
LARGEST_ACTION = 1024
RESAMPLED = 8
"""Times the counts that a bootstrap takes."""


class DataWorld(ObservedTable):
    """A table of what was counted; `emp.exact` of it gives 95 % intervals. See `emp.from_data`."""

    def __init__(self, counts: np.ndarray, ended: np.ndarray, stays: bool, **parts: Any):
        """`stays`: actions that were never tried change nothing, else they are left out."""
        super().__init__(**parts)
        self._counts, self._ended, self._stays = counts, ended, stays

    @property
    def tried(self) -> np.ndarray:
        """`int64[states, actions]`: how often each action was taken in each state."""
        return self._counts.sum(-1)

    def few(self, least: int = 20) -> np.ndarray:
        """`bool[states]`: where some action was tried fewer than `least` times."""
        return (self.tried < least).any(-1) & ~self._ended

    def resampled(self, count: int) -> tuple[World, Iterator[World]]:
        """The table of the counts, and tables of as many data drawn from these (bootstrap)."""
        return self._table(self.odds), self._redrawn(count)

    def _redrawn(self, count: int) -> Iterator[World]:
        rng, tried = np.random.default_rng(0), self.tried
        shares = np.where(tried[..., None] > 0, self._counts / np.maximum(tried, 1)[..., None], 0.0)
        shares[..., 0] += tried == 0
        for _ in range(count):
            yield self._table(shrunk(rng.multinomial(tried, shares)))

    def _table(self, odds: np.ndarray) -> ObservedTable:
        """The same states with other probabilities. An action that is left out is a copy of the
        one that was tried most."""
        tried = self.tried
        odds = np.where(tried[..., None] > 0, odds, self.odds)
        if not self._stays:
            state, action = np.nonzero((tried == 0) & (tried.sum(-1) > 0)[:, None])
            odds[state, action] = odds[state, tried[state].argmax(-1)]
        here = np.arange(self.size)[:, None, None]
        ended = np.asarray(self.terminal(np.arange(self.size)))
        return ObservedTable(
            np.where(odds > 0, self.successors, here),
            odds,
            self.observations,
            name=self.name,
            actions=self.actions,
            start=int(self.start),
            terminals=ended,
            shown=self.states(),
        )


def from_data(
    x: Any,
    a: Any = None,
    x_next: Any = None,
    terminated: Any = None,
    *,
    unseen: str | None = None,
    name: str = "data",
) -> DataWorld:
    """A world from logged transitions: observations, whole numbers of actions, and observations
    after them, one row for each; `terminated` says which ended an episode (not those that a time
    limit cut off: an observation that ended an episode is another state than the same one that did
    not). Or `x` alone: the path of an `.npz` file with these arrays by these names.

    Equal observations are one state. `.index(x)` gives the numbers of the states,
    `.observations` what is seen in each, `.tried` how often each action was taken there and
    `.few()` where that was rare. Actions that were never taken in a state are left out there
    (`unseen="drop"`), or leave the state as it is (`unseen="stay"`); without `unseen` they are
    refused. So is a state in which nothing was done, such as the last one of a log.

    `emp.exact` of such a world is an estimate, and its `lower` and `upper` are a 95 % interval for
    each state by itself. Probabilities of outcomes are empirical Bayes estimates (`memory.shrunk`),
    since plain counting makes every accident look like a choice; what bias is left is estimated by
    resampling. The interval covers the noise of counting, not outcomes that were never seen (in n
    tries, those have a probability of at most 3/n, with 95 % confidence).

    >>> x, a, x_next = [[0], [0], [1], [1]], [0, 1, 0, 1], [[0], [1], [0], [1]]
    >>> world = from_data(x, a, x_next)
    >>> world.index([[1], [5]])
    array([ 1, -1])
    """
    if isinstance(x, str | os.PathLike):
        x, a, x_next, terminated = _read(Path(x))
    return _world(_counted(*_checked(x, a, x_next, terminated)), unseen, name)


def _counted(
    frames: np.ndarray, actions: np.ndarray, after: np.ndarray, ended: np.ndarray
) -> Memory:
    """What followed what, counted; a ValueError where observations hardly repeat."""
    memory = Memory(frames.shape[1:], frames.dtype, int(actions.max()) + 1)
    before = memory.number(frames)
    memory.add(before, actions, memory.number(after, ended))
    differ = len(np.unique(before))
    if differ > REPEATING * len(frames) and len(frames) > 100:
        raise ValueError(
            f"{differ:,} of {len(frames):,} observations differ, so that counting them "
            "tells nothing; round them, or learn on the environment itself with emp.train"
        )
    refuse_beyond(
        RESAMPLED * memory.counts.nbytes,
        f"a table of {len(memory):,} states with up to {memory.counts.shape[2]:,} outcomes",
        "give fewer different observations",
    )
    return memory


def _world(memory: Memory, unseen: str | None, name: str) -> DataWorld:
    """The world of these counts, with untried actions as `unseen` says."""
    tried = memory.tried
    missing = int((tried[~memory.ended] == 0).sum())
    if missing and unseen is None:
        raise ValueError(
            f"{missing:,} pairs of a state and an action were never tried; give unseen='drop' to "
            "leave these actions out there, or unseen='stay' to let them change nothing"
        )
    if unseen not in (None, "drop", "stay"):
        raise ValueError(f"unseen={unseen!r} is unknown; give 'drop' or 'stay'")
    if unseen == "stay":
        state, action = np.nonzero((tried == 0) & ~memory.ended[:, None])
        memory.add(state.astype(np.int32), action, state.astype(np.int32))
    table = memory.world(name)
    dead = np.asarray(table.terminal(np.arange(table.size)))
    # Steps that were made up for actions that nobody took count for nothing.
    real = (tried > 0)[:, :, None] & ~dead[:, None, None]
    return DataWorld(
        np.where(real, memory.counts, 0),
        memory.ended.copy(),
        unseen == "stay",
        successors=table.successors,
        odds=table.odds,
        frames=table.observations,
        name=name,
        actions=table.actions,
        start=int(table.start),
        terminals=dead,
        shown=table.states(),
    )


def _checked(x: Any, a: Any, x_next: Any, terminated: Any) -> tuple[np.ndarray, ...]:
    """The four arrays; a ValueError says what is wrong with them."""
    if a is None or x_next is None:
        raise ValueError("give x, a and x_next, or the path of an .npz file that holds them")
    frames, actions, after = np.asarray(x), np.asarray(a), np.asarray(x_next)
    if not (frames.ndim and actions.ndim and after.ndim):
        raise ValueError("x, a or x_next is a single number; give one row for each transition")
    ended = np.zeros(len(actions), bool) if terminated is None else np.atleast_1d(terminated)
    if frames.ndim == 1:
        frames, after = frames[:, None], after.reshape(-1, 1)
    lengths = {"x": len(frames), "a": len(actions), "x_next": len(after), "terminated": len(ended)}
    if len(set(lengths.values())) > 1 or not len(frames):
        raise ValueError(f"the arrays have lengths {lengths}; give one row for each transition")
    if frames.shape != after.shape or not {frames.dtype.kind, after.dtype.kind} <= set("biuf"):
        raise ValueError(
            f"x has shape {frames.shape} and type {frames.dtype}, x_next {after.shape} and "
            f"{after.dtype}; give observations of numbers, of one shape"
        )
    if frames.ndim == 3:  # grey pictures
        frames, after = frames[..., None], after[..., None]
    if actions.ndim != 1 or actions.dtype.kind not in "iu" or actions.min() < 0:
        raise ValueError(
            f"a has shape {actions.shape} and type {actions.dtype}; give one whole number from 0 "
            "for each transition"
        )
    if actions.max() >= LARGEST_ACTION:
        raise ValueError(
            f"a goes up to {actions.max()}; give actions numbered from 0, below {LARGEST_ACTION}"
        )
    if ended.ndim != 1 or ended.dtype.kind not in "biu":
        raise ValueError(f"terminated has type {ended.dtype}; give one boolean for each transition")
    if frames.dtype == after.dtype == np.uint8:
        return frames, actions.astype(np.int64), after, ended.astype(bool)
    return _single(frames), actions.astype(np.int64), _single(after), ended.astype(bool)


def _single(frames: np.ndarray) -> np.ndarray:
    """Observations in single precision; a ValueError where different numbers would become one."""
    with np.errstate(over="ignore"):
        single = frames.astype(np.float32)
    if not np.isfinite(single).all():
        raise ValueError(
            "x or x_next holds NaN, infinity or more than single precision can hold; drop these "
            "transitions first"
        )
    if frames.dtype != np.float32 and len(np.unique(single)) < len(np.unique(frames)):
        raise ValueError(
            "x or x_next holds different numbers that are one in single precision; number "
            "observations from 0, or round them"
        )
    return single


def _read(path: Path) -> tuple[Any, ...]:
    """The arrays of an .npz file; nothing in it is executed."""
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        raise ValueError(
            f"{str(path)!r} is no file of at most {LARGEST_FILE // 2**30} GiB; check the path"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {key: file[key] for key in (*PARTS, "terminated") if key in file.files}
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{str(path)!r} is no .npz file of arrays ({error})") from None
    except Exception as error:  # a damaged zip file raises errors of many kinds
        raise ValueError(f"{str(path)!r} is damaged ({type(error).__name__}: {error})") from None
    missing = [key for key in PARTS if key not in found]
    if missing:
        raise ValueError(
            f"{str(path)!r} has no {' and no '.join(missing)}; save arrays x, a and x_next, and "
            "terminated where episodes end"
        )
    return (*(found[key] for key in PARTS), found.get("terminated"))
