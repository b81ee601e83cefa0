"""Exact empowerment: counting where dynamics are deterministic, capacity where they are not
(sections 2 and 4.1)."""

import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from .capacity import brackets, check_parameters
from .channel import Channel, channels
from .counting import count_ends
from .feedback import feedback_values
from .gaussian import linear_empowerment
from .landscape import Landscape
from .reach import Progress, explore, look_alikes
from .worlds.grid import GridState
from .worlds.point_mass import PointMass
from .worlds.table import TableWorld
from .worlds.world import Layout, State, World, check_world, leaves, take

LARGEST_SOURCE = 2**20
"""Sequences that `optimal_source` lists at most."""
REPLICATES, Z95 = 40, 2.02
"""Tables that are resampled from a counted one, and standard errors on either side of an interval
that holds 95 %, with so many."""
COUNTED_TOLERANCE = 1e-6
"""Nats to which capacities of counted channels are closed: far below the noise of counting."""
CHUNK = 2**24
"""Entries of the channels held at a time, 128 MiB."""


def exact(
    world: World,
    horizon: int | float | np.integer,
    states: State | None = None,
    *,
    feedback: bool = False,
    discount: float = 1.0,
    tolerance: float = 1e-9,
    progress: bool = False,
) -> Landscape:
    """Empowerment with a proof of its error: E(s) = max over sources of I(a; s'|s), equation 2 of
    the paper.

    Deterministic worlds are counted: E(s) = ln n(s), appendix A. Noisy ones go through `capacity`,
    whose bracket is closed to `tolerance` nats; the linear point mass has a closed form. `states`
    is a batch of the world's states, or a single one; by default every place of the agent with the
    rest as at the start. `progress` draws a bar.

    With `feedback` the agent sees where each action has led before it chooses the next: E_k(s) =
    max over ω(a|s) of I(a; s'|s) + discount E[E_{k-1}(s')]. Every step is closed to `tolerance`, so
    that the bracket is at most K times as wide. `horizon` may be `math.inf` where `discount` is
    below 1. The landscape's `source` is the best distribution of the first action.

    >>> from empowerment import make
    >>> land = exact(make("open-room"), horizon=5)
    >>> float(land.nats.max().round(4))  # ln 61: all cells within five moves
    4.1109
    """
    check_world(world)
    check_feedback(feedback, discount)
    if not (feedback and discount < 1 and horizon == math.inf):
        check_horizon(horizon)
        horizon = int(horizon)  # of any kind
    horizon = math.inf if horizon == math.inf else int(horizon)
    check_parameters(1.0, tolerance)
    states = world.states() if states is None else check_states(world, states)
    resampled = world.resampled(REPLICATES)
    if resampled is not None:
        given = {"feedback": feedback, "discount": discount}
        return _from_counts(*resampled, horizon, states, progress, **given)
    if feedback:
        return _with_feedback(world, horizon, states, discount, tolerance, progress)
    horizon = int(horizon)
    if isinstance(world, PointMass) and world.power is not None:
        nats = np.full(
            len(leaves(states)[0]), linear_empowerment(*world.matrices(), horizon, world.power)
        )
        return Landscape.of(world, horizon, states, nats, nats, nats)
    with _bar(progress, None) as advance:
        table = explore(world, states, horizon, progress=advance)
    if table.odds is None:
        with _bar(progress, len(table.starts)) as advance:
            nats = np.log(count_ends(table, horizon, advance))
        return Landscape.of(world, horizon, states, nats, nats, nats)
    starts, kinds = look_alikes(table, horizon)
    with _bar(progress, len(starts)) as advance:
        chunks = _chunks(channels(replace(table, starts=starts), horizon))
        proved = np.concatenate([_brackets(chunk, tolerance, advance) for chunk in chunks])
    lower, upper = proved[kinds].T
    return Landscape.of(world, horizon, states, lower, lower, upper)


def _from_counts(
    counted: World,
    resampled: Iterable[World],
    horizon: int | float,
    states: State,
    progress: bool,
    **given: Any,
) -> Landscape:
    """An estimate from data and a 95 % interval (parametric bootstrap).

    Noise raises a capacity, since every accident looks like a choice. Data drawn from the counted
    table show by how much; where that is more than half a standard error it is subtracted. The
    interval has room for all of it.
    """
    with _bar(progress, REPLICATES + 1, "table") as advance:

        def solved(world: World) -> Landscape:
            advance(1)
            return exact(world, horizon, states, tolerance=COUNTED_TOLERANCE, **given)

        land, drawn = solved(counted), np.array([solved(one).nats for one in resampled])
    found = land.nats
    bias, error = drawn.mean(0) - found, drawn.std(0, ddof=1)
    nats = np.maximum(found - np.where(np.abs(bias) > error / 2, bias, 0.0), 0.0)
    room = Z95 * error + np.abs(bias)
    return Landscape.of(
        counted,
        horizon,
        states,
        nats,
        np.maximum(nats - room, 0.0),
        nats + room,
        source=land.source,
        **given,
    )


def _with_feedback(
    world: World,
    horizon: int | float | np.integer,
    states: State,
    discount: float,
    tolerance: float,
    progress: bool,
) -> Landscape:
    endless = horizon == math.inf
    steps = math.inf if endless else int(horizon)
    with _bar(progress, None) as advance:
        table = explore(world, states, sys.maxsize if endless else int(horizon), progress=advance)
    with _bar(progress, None if endless else int(horizon), "step") as advance:
        found = feedback_values(table, steps, discount, tolerance, advance)
    given = {"feedback": True, "discount": float(discount), "source": found.source}
    return Landscape.of(world, steps, states, found.lower, found.lower, found.upper, **given)


def has_exact(world: World) -> bool:
    """Whether `exact` knows this kind of world, however large it is."""
    return world.enumerable or (isinstance(world, PointMass) and world.power is not None)


def _chunks(items: Iterator[Channel]) -> Iterator[list[Channel]]:
    """Channels in lists of about `CHUNK` entries, so that many are solved together in bounded
    memory."""
    chunk, entries = [], 0
    for item in items:
        chunk.append(item)
        entries += item.matrix.size
        if entries > CHUNK:
            yield chunk
            chunk, entries = [], 0
    if chunk:
        yield chunk


def _brackets(chunk: list[Channel], tolerance: float, advance: Progress) -> np.ndarray:
    """`float64[n, 2]`: proved lower and upper bounds."""
    proved = brackets([channel.matrix for channel in chunk], tolerance)
    proved[:, 1] += [_merging_error(channel.slack, len(channel.ends)) for channel in chunk]
    advance(len(chunk))
    return proved


def _merging_error(distance: float, ends: int) -> float:
    """How far merging rows within this total variation may have lowered a capacity.

    Each row's entropy and the output's move by at most h(d) + d ln n (Fannes), so their difference
    by twice that.
    """
    if distance == 0:
        return 0.0
    entropy = -distance * np.log(distance) - (1 - distance) * np.log1p(-distance)
    return float(2 * (entropy + distance * np.log(ends)))


def ends(world: World, state: State, horizon: int) -> tuple[State, np.ndarray]:
    """End states of one state as a batch, and n(s', s): how many action sequences lead to each
    (appendix A).

    Counts are whole numbers, `int64`, or `float64` where there are 2^63 sequences and more.
    """
    _deterministic(world)
    check_horizon(horizon)
    horizon = int(horizon)  # of any kind
    table = explore(world, check_states(world, state), horizon, keep=True)
    whole = len(world.actions) ** horizon < 2**63
    counts = np.zeros(table.size, np.int64 if whole else np.float64)
    counts[table.starts[0]] = 1
    for _ in range(horizon):
        after = np.zeros_like(counts)
        reached = np.flatnonzero(counts[: len(table.successors)])
        np.add.at(after, table.successors[reached, :, 0], counts[reached, None])
        counts = after
    reached = np.flatnonzero(counts)
    return take(table.states, reached), counts[reached]


@dataclass(frozen=True, eq=False)
class Source:
    """A distribution over all N^K action sequences of one state, and where each leads."""

    sequences: np.ndarray
    """`int64[N^K, K]`"""
    probabilities: np.ndarray
    """`float64[N^K]`"""
    ends: np.ndarray
    """`int64[N^K]`: which of `end_states` each sequence leads to"""
    end_states: State
    """batch of the n(s) end states"""

    def end_distribution(self) -> np.ndarray:
        """p(s'|s) = Σ_a ω(a|s) δ(s' - T(s, a)); for the optimal source 1/n(s) at every end."""
        return np.bincount(self.ends, weights=self.probabilities)


def optimal_source(world: World, state: State, horizon: int) -> Source:
    """ω(a|s) = 1 / (Z(s) n(a, s)), the optimal source of a deterministic world (appendix A).

    n(a, s) counts the sequences that end where a ends, and Z(s) = n(s), the number of end states.
    """
    _deterministic(world)
    check_horizon(horizon)
    n, horizon = len(world.actions), int(horizon)
    if n**horizon > LARGEST_SOURCE:
        raise ValueError(
            f"horizon={horizon} gives {n}^{horizon} sequences, too many to list; "
            f"give a horizon with at most {LARGEST_SOURCE:,}"
        )
    table = explore(world, check_states(world, state), horizon, keep=True)
    sequences = np.stack(np.unravel_index(np.arange(n**horizon), (n,) * horizon), axis=1)
    last = np.full(len(sequences), table.starts[0])
    for actions in sequences.T:
        last = table.successors[last, actions, 0]
    reached, which, counts = np.unique(last, return_inverse=True, return_counts=True)
    return Source(sequences, 1 / (counts[which] * len(reached)), which, take(table.states, reached))


def check_horizon(horizon: Any) -> None:
    if isinstance(horizon, bool) or not isinstance(horizon, Integral) or int(horizon) < 1:
        raise ValueError(
            f"horizon={horizon!r} is not a number of actions; give a whole number, 1 or more (or "
            "math.inf with feedback=True and a discount below 1)"
        )


def check_feedback(feedback: Any, discount: Any) -> None:
    if isinstance(discount, bool) or not isinstance(discount, Real) or not 0 < float(discount) <= 1:
        raise ValueError(
            f"discount={discount!r} is no weight of later steps; give a number above 0, at most 1"
        )
    if discount != 1 and not feedback:
        raise ValueError(f"discount={discount} is for feedback=True; give that, or leave it out")


def check_states(world: World, states: State) -> State:
    """The states as a batch of NumPy arrays in the world's own types; a ValueError says what is
    wrong with them."""
    start = world.start
    if isinstance(states, tuple) != isinstance(start, tuple) or len(leaves(states)) != len(
        leaves(start)
    ):
        raise ValueError(
            f"states is a {type(states).__name__}, and states of world {world.name!r} are a "
            f"{type(start).__name__}; "
            "change those that world.states() gives"
        )
    parts = [_part(world, x, like) for x, like in zip(leaves(states), leaves(start), strict=True)]
    lengths = {len(x) for x in parts}
    if len(lengths) != 1:
        raise ValueError(
            f"states has parts of lengths {sorted(lengths)}; give each part once for every state"
        )
    if lengths == {0}:
        raise ValueError("states is empty; give at least one state")
    batch = type(start)(*parts) if isinstance(start, tuple) else parts[0]
    absent = np.flatnonzero(_absent(world, batch))
    if len(absent):
        shown = take(batch, int(absent[0]))
        raise ValueError(
            f"states has one that world {world.name!r} does not have, number {absent[0]}: "
            f"{_brief(shown)}; "
            "change those that world.states() gives"
        )
    return batch


def _part(world: World, given: Any, like: Any) -> np.ndarray:
    """One array of a batch of states, with the type and trailing shape of the start's."""
    array, like = np.asarray(given), np.asarray(like)
    if array.ndim == like.ndim:
        array = array[None]
    kinds = "iu" if like.dtype.kind in "iu" else like.dtype.kind
    if array.shape[1:] != like.shape or array.dtype.kind not in kinds:
        shape = ", ".join(map(str, ("n", *like.shape)))
        raise ValueError(
            f"states has a part of shape {array.shape} and type {array.dtype}, where world "
            f"{world.name!r} has ({shape}) and {like.dtype}; change those that world.states() gives"
        )
    if kinds == "f" and not np.isfinite(array).all():
        raise ValueError(
            "states has numbers that are NaN or infinite; change those that world.states() gives"
        )
    if kinds == "iu" and array.size and not _fits(array, like.dtype):
        raise ValueError(
            f"states has numbers from {array.min()} to {array.max()}, outside of {like.dtype}"
        )
    return array.astype(like.dtype)


def _fits(array: np.ndarray, dtype: np.dtype) -> bool:
    return int(array.min()) >= np.iinfo(dtype).min and int(array.max()) <= np.iinfo(dtype).max


def _absent(world: World, states: State) -> np.ndarray:
    """`bool[n]`: states that the world cannot be in."""
    if isinstance(world, TableWorld):
        return (states < 0) | (states >= world.size)
    if world.layout is None:
        return np.zeros(len(leaves(states)[0]), bool)
    place = world.locate(states)
    outside = np.any((place < 0) | (place >= world.layout.shape), axis=-1)
    inside = np.where(outside[:, None], 0, place)
    blocked = outside | world.layout.walls[inside[:, 0], inside[:, 1]]
    if isinstance(states, GridState):
        # The state of death has no place.
        return (blocked | _obstructed(states, inside, world.layout)) & states.alive
    return blocked


def _obstructed(states: GridState, place: np.ndarray, layout: Layout) -> np.ndarray:
    """`bool[n]`: the agent stands where a box, a brick, lava or a closed door is."""
    n, cell = len(place), place[:, 0] * layout.shape[1] + place[:, 1]
    inside = np.zeros(n, bool)
    for things in (states.boxes, states.bricks, states.lava):
        if things.shape[1]:
            inside |= things[np.arange(n), cell]
    doors = [row * layout.shape[1] + column for kind, row, column in layout.marks if kind == "door"]
    for i, door in enumerate(doors):
        inside |= (cell == door) & ~states.doors[:, i]
    return inside


def _brief(state: State) -> str:
    if isinstance(state, GridState):
        return f"agent={np.asarray(state.agent)}"
    return str(np.asarray(state))[:60]


def _deterministic(world: World) -> None:
    if not world.deterministic:
        raise ValueError(
            f"world {world.name!r} is random, and paths are counted in deterministic ones only; "
            "use emp.capacity on its channel for the optimal source"
        )


@contextmanager
def _bar(progress: bool, total: int | None, unit: str = "state") -> Iterator[Progress]:
    if not progress:
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=unit, delay=1.0, leave=False) as bar:
        yield bar.update
