"""Worlds from logged transitions: the table of what was counted, and how sure it is."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from .memory import Memory, ObservedTable, shrunk
from .world import World

REPEATING = 0.5
"""Observations are taken not to repeat where more than this share of them are different."""
LARGEST_FILE = 2**33
"""Bytes of a file of transitions."""
PARTS = ("x", "a", "x_next")
LARGEST_ACTION = 1024


class DataWorld(ObservedTable):
    """A table of what was counted; `emp.exact` of it gives 95 % intervals. See `emp.from_data`."""

    def __init__(self, counts: np.ndarray, **parts: Any):
        super().__init__(**parts)
        self._counts = counts

    @property
    def tried(self) -> np.ndarray:
        """`int64[states, actions]`: how often each action was taken in each state."""
        return self._counts.sum(-1)

    def few(self, least: int = 20) -> np.ndarray:
        """`bool[states]`: where some action was tried fewer than `least` times."""
        rare = (self.tried < least).any(-1)
        return rare & ~np.asarray(self.terminal(np.arange(self.size)))

    def resampled(self, count: int) -> tuple[World, list[World]]:
        """The table of the counts, and tables of as many data drawn from these (bootstrap)."""
        rng, tried = np.random.default_rng(0), self.tried
        shares = np.where(tried[..., None] > 0, self._counts / np.maximum(tried, 1)[..., None], 0.0)
        shares[..., 0] += tried == 0
        draws = [rng.multinomial(tried, shares) for _ in range(count)]
        return self._table(self.odds), [self._table(shrunk(drawn)) for drawn in draws]

    def _table(self, odds: np.ndarray) -> ObservedTable:
        """The same states with other probabilities; pairs that were never tried keep theirs."""
        odds = np.where(self.tried[..., None] > 0, odds, self.odds)
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
    after them, one row for each; `terminated` says which ended an episode. Or `x` alone: the path
    of an `.npz` file with these arrays by these names.

    Equal observations are one state. `.index(x)` gives the numbers of the states,
    `.observations` what is seen in each, `.tried` how often each action was taken there and
    `.few()` where that was rare. Actions that were never taken in a state are left out there
    (`unseen="drop"`), or leave the state as it is (`unseen="stay"`); without `unseen` they are
    refused.

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
    frames, actions, after, ended = _checked(x, a, x_next, terminated)
    memory = Memory(frames.shape[1:], frames.dtype, int(actions.max()) + 1)
    before = memory.number(frames)
    memory.add(before, actions, memory.number(after, ended))
    if len(memory) > REPEATING * 2 * len(frames) and len(frames) > 100:
        raise ValueError(
            f"{len(memory):,} of {2 * len(frames):,} observations differ, so that counting them "
            "tells nothing; round them, or learn on the environment itself with emp.train"
        )
    missing = int((memory.tried[memory.tried.sum(-1) > 0] == 0).sum())
    if missing and unseen is None:
        raise ValueError(
            f"{missing:,} pairs of a state and an action were never tried; give unseen='drop' to "
            "leave these actions out there, or unseen='stay' to let them change nothing"
        )
    if unseen not in (None, "drop", "stay"):
        raise ValueError(f"unseen={unseen!r} is unknown; give 'drop' or 'stay'")
    if unseen == "stay":
        state, action = np.nonzero((memory.tried == 0) & (memory.tried.sum(-1) > 0)[:, None])
        memory.add(state.astype(np.int32), action, state.astype(np.int32))
    table = memory.world(name)
    dead = np.asarray(table.terminal(np.arange(table.size)))
    return DataWorld(
        np.where(dead[:, None, None], 0, memory.counts),
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
    ended = np.zeros(len(actions), bool) if terminated is None else np.asarray(terminated)
    if frames.ndim == 1:
        frames, after = frames[:, None], after.reshape(-1, 1)
    lengths = {"x": len(frames), "a": len(actions), "x_next": len(after), "terminated": len(ended)}
    if len(set(lengths.values())) > 1 or not len(frames):
        raise ValueError(f"the arrays have lengths {lengths}; give one row for each transition")
    if frames.shape != after.shape or frames.dtype.kind not in "biuf":
        raise ValueError(
            f"x has shape {frames.shape} and type {frames.dtype}, x_next {after.shape}; give "
            "observations of numbers, of one shape"
        )
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
    if not (np.isfinite(frames).all() and np.isfinite(after).all()):
        raise ValueError("x or x_next holds NaN or infinity; drop these transitions first")
    kind = np.uint8 if frames.dtype == np.uint8 else np.float32
    return frames.astype(kind), actions.astype(np.int64), after.astype(kind), ended.astype(bool)


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
