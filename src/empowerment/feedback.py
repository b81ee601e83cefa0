"""Exact empowerment with feedback, where the agent sees where each action has led before it chooses
the next.

E_k(s) = max over ω(a|s) of I(a; s'|s) + γ E[E_{k-1}(s')], with E_0 = 0. With γ = 1 this is the
largest directed information from actions to states over K steps; in a deterministic world it is the
logarithm of the number of distinct state trajectories. Each step is a channel's capacity with a
linear term, solved for all states together, so that time grows linearly with K.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from .interior_point import Channels, interior_point
from .reach import Progress, Table

LARGEST_STEPS = 2**27
"""Entries of the one-step channels of all states, zeros and all: 1 GiB."""
BLOCK = 2**17
"""Entries of the channels that are solved together: 1 MiB, which stays in the cache."""
SMALLEST_TOLERANCE = 1e-11
"""Nats to which a step's bracket can be closed in double precision."""


class Values(NamedTuple):
    """Bounds of the empowerment of every start of a table, and the best first action's
    distribution."""

    lower: np.ndarray
    upper: np.ndarray
    source: np.ndarray
    """`float64[n, actions]`: ω_K(a|s)"""


class Task(NamedTuple):
    """A reward beside empowerment: the objective is then the discounted sum of rewards, plus
    `temperature` times the information."""

    reward: np.ndarray
    """`float64[size]`: paid for coming to each state of the table"""
    ended: np.ndarray
    """`bool[size]`: where an episode is over and nothing more is paid"""
    temperature: float
    """what a nat is worth, in units of the reward; 0 is value iteration"""


@dataclass(frozen=True, eq=False)
class _Group:
    """States whose one-step channels have the same shape, without equal rows."""

    states: np.ndarray
    """`int[n]`"""
    ends: np.ndarray
    """`int[n, ends]`: which state each column is"""
    row_of: np.ndarray
    """`int[n, actions]`: the row of each action"""
    rows: np.ndarray | None
    """`float64[n, rows, ends]`: p(s'|a, s), a row for each action that does something else; None
    where each row leads to an end of its own, the first to the first end and so on"""

    def mean(self, values: np.ndarray) -> np.ndarray:
        """`float64[n, rows]`: the expected value of the state that each row leads to."""
        at_ends = values[self.ends]
        return at_ends if self.rows is None else (self.rows @ at_ends[:, :, None])[..., 0]


def feedback_values(
    table: Table,
    horizon: int | float,
    discount: float,
    tolerance: float,
    progress: Progress = lambda done: None,
    task: "Task | None" = None,
) -> Values:
    """Backward induction over all states of the table.

    `lower` is the value of the sources that were found; `upper` adds what each step's bracket left
    open, and that of the steps after it. Where the horizon is infinite, both include what is left
    of the discounted sum (MacQueen's bounds), so that the endless problem's value lies between
    them.
    """
    m, actions = len(table.successors), table.successors.shape[1]
    groups = [part for group in _groups(table) for part in _blocks(group)]
    nothing = np.zeros(table.size)
    task = Task(nothing, nothing.astype(bool), 1.0) if task is None else task
    value, gap = nothing, nothing
    source, steps, rest = np.full((m, actions), 1 / actions), 0, 0.0
    if math.isinf(horizon):
        rest = discount / (1 - discount)
        tolerance = max(tolerance / (4 * rest + 4), SMALLEST_TOLERANCE)
    while steps < horizon:
        new, left = np.zeros(table.size), np.zeros(table.size)
        for group in groups:
            found = _improved(group, task.reward + discount * value, task.temperature, tolerance)
            new[group.states], left[group.states], source[group.states] = found
            if not rest:
                left[group.states] += discount * group.mean(gap).max(-1)
        new[task.ended], left[task.ended] = 0.0, 0.0
        rise, value, gap, steps = (new - value)[:m], new, left, steps + 1
        progress(1)
        if rest and rest * np.ptp(rise) <= 4 * (1 + rest) * tolerance:
            open_ = gap.max()
            value = value + rest * rise.min()
            gap = np.full(table.size, open_ + rest * (np.ptp(rise) + open_))
            value[task.ended], gap[task.ended] = 0.0, 0.0
            break
    starts = table.starts
    return Values(value[starts], (value + gap)[starts], source[starts])


def _improved(
    group: _Group, value: np.ndarray, temperature: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step of backward induction, max_ω [temperature I(a; s') + Σ_a ω_a r_a], where r_a is what
    the state after a is worth: its value from below, how far the bound lies above, and ω."""
    worth = group.mean(value)
    # What is worth the same everywhere is added afterwards, which keeps the numbers small.
    base = worth.max(-1, keepdims=True)
    if temperature == 0:
        low, source = np.zeros(len(worth)), (worth == base).astype(float)
        return _found(group, base[:, 0], low, low, source)
    rewards = (worth - base) / temperature
    if group.rows is None:
        low, source = _softmax(rewards)
        high = low
    else:
        negentropy = xlogy(group.rows, group.rows).sum(-1)
        channels = Channels(group.rows, negentropy, np.ones(worth.shape), 0.0, rewards)
        with np.errstate(all="ignore"):
            best = interior_point(channels, tolerance)
        # The best action taken for certain gives 0 already, where rewards decide.
        certain = np.eye(worth.shape[1])[rewards.argmax(-1)]
        source = np.where(best.lower[:, None] < 0, certain, best.source)
        low, high = np.maximum(best.lower, 0.0), best.upper
    return _found(group, base[:, 0], temperature * low, temperature * high, source)


def _found(
    group: _Group, base: np.ndarray, low: np.ndarray, high: np.ndarray, source: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, gap and the source over actions, of which those with one row share its probability."""
    shares = np.take_along_axis(source / _copies(group, source.shape[1]), group.row_of, axis=1)
    return base + low, high - low, shares / shares.sum(-1, keepdims=True)


def _softmax(rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln Σ_a exp(r_a) over distinct ends, and the source that attains it."""
    weights = np.exp(rewards)
    total = weights.sum(-1)
    return np.log(total), weights / total[:, None]


def _copies(group: _Group, rows: int) -> np.ndarray:
    """`float64[n, rows]`: how many actions have each row."""
    return np.stack([(group.row_of == i).sum(1) for i in range(rows)], axis=1).astype(float)


def _groups(table: Table) -> Iterator[_Group]:
    """One-step channels of all states that have successors, by shape."""
    m, actions, outcomes = table.successors.shape
    odds = np.ones(table.successors.shape) if table.odds is None else table.odds
    if m * actions * actions * outcomes > LARGEST_STEPS * (4 if table.odds is None else 1):
        raise ValueError(
            f"{m:,} states with {actions} actions of {outcomes} outcomes are too many for "
            "feedback=True; give fewer states= or a smaller horizon"
        )
    ends, column = _columns(table.successors.reshape(m, -1))
    row_of = _equal_rows(table.successors, odds)
    heights, widths = row_of.max(1) + 1, (ends >= 0).sum(1)
    shapes = heights * (ends.shape[1] + 1) + widths
    for shape in np.unique(shapes):
        states = np.flatnonzero(shapes == shape)
        height, width = int(heights[states[0]]), int(widths[states[0]])
        rows = np.zeros((len(states), actions, width))
        state = np.repeat(np.arange(len(states)), actions * outcomes)
        action = np.tile(np.repeat(np.arange(actions), outcomes), len(states))
        np.add.at(rows, (state, action, column[states].ravel()), odds[states].ravel())
        first = np.stack([(row_of[states] == i).argmax(1) for i in range(height)], axis=1)
        kept = np.take_along_axis(rows, first[:, :, None], axis=1)
        noiseless = (kept.max(-1) == 1).all(-1)
        for which, noisy in ((noiseless, False), (~noiseless, True)):
            own = states[which]
            if not len(own):
                continue
            reached, some = ends[own, :width], kept[which]
            if noisy:
                some = some / some.sum(-1, keepdims=True)
            else:
                reached = np.take_along_axis(reached, some.argmax(-1), axis=1)
            yield _Group(own, reached, row_of[own], some if noisy else None)


def _columns(successors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each state its distinct successors, filled up with -1, and which of them each outcome
    is."""
    order = np.argsort(successors, axis=1, kind="stable")
    ascending = np.take_along_axis(successors, order, axis=1)
    number = np.zeros(successors.shape, np.int32)
    number[:, 1:] = np.cumsum(ascending[:, 1:] != ascending[:, :-1], axis=1)
    column = np.empty_like(number)
    np.put_along_axis(column, order, number, axis=1)
    ends = np.full((len(successors), int(number.max()) + 1), -1, np.int32)
    np.put_along_axis(ends, column, successors, axis=1)
    return ends, column


def _equal_rows(successors: np.ndarray, odds: np.ndarray) -> np.ndarray:
    """`int[m, actions]`: for each action the number of its row, the same for actions that lead to
    the same ends with the same probabilities."""
    m, actions, _ = successors.shape
    order = np.argsort(successors, axis=-1, kind="stable")
    ends = np.take_along_axis(successors, order, axis=-1)
    chance = np.take_along_axis(odds, order, axis=-1)
    # One way to write each row: equal ends once, ends of no probability first and nameless.
    for j in range(ends.shape[-1] - 1, 0, -1):
        again = ends[..., j] == ends[..., j - 1]
        chance[..., j - 1] += np.where(again, chance[..., j], 0.0)
        chance[..., j] = np.where(again, 0.0, chance[..., j])
    ends = np.where(chance > 0, ends, -1)
    order = np.argsort(ends, axis=-1, kind="stable")
    ends, chance = (np.take_along_axis(x, order, axis=-1) for x in (ends, chance))
    row_of = np.zeros((m, actions), np.int32)
    count = np.zeros(m, np.int32)
    for a in range(actions):
        new = np.ones(m, bool)
        for b in range(a):
            same = new & (ends[:, a] == ends[:, b]).all(-1) & (chance[:, a] == chance[:, b]).all(-1)
            row_of[same, a] = row_of[same, b]
            new &= ~same
        row_of[new, a] = count[new]
        count += new
    return row_of


def _blocks(group: _Group) -> Iterator[_Group]:
    """A group in parts that are solved together."""
    if group.rows is None:
        yield group
        return
    most = max(BLOCK // group.rows[0].size, 1)
    for i in range(0, len(group.states), most):
        part = slice(i, i + most)
        yield _Group(group.states[part], group.ends[part], group.row_of[part], group.rows[part])
