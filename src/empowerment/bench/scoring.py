"""How good an estimate is: against the certified truth, and as something to act on."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..behaviour.behaviour import outcomes
from ..worlds.world import identify
from .certificates import Truth
from .tasks import Task

VIOLATION = 0.01
"""Nats above the proved upper bound that count as a violation."""
WANTED = 0.95
"""R² whose time is taken."""


@dataclass(frozen=True)
class Scores:
    """One estimate of one task; errors are in nats."""

    r2: float
    """1 - Σ(estimate - truth)² / Σ(truth - its mean)²; NaN where the truth is the same in every
    state"""
    pearson: float
    """correlation; NaN where either is the same in every state"""
    bias: float
    """mean of estimate - truth"""
    max_error: float
    """largest |estimate - truth|"""
    relative_error: float
    """largest |estimate - truth| over the mean of the truth"""
    regret: float
    """mean exact empowerment that is lost by taking the action with the highest estimate one step
    ahead, over states all of whose successors are asked for; NaN where there are none"""
    regret_share: float
    """the same as a share of what there was to lose, from the best action to the worst"""
    violations: int
    """states whose estimate lies above the proved upper bound by more than 0.01 nats"""


def score(task: Task, values: Any) -> Scores:
    """Score values in nats, one for each of `task.observations()`, in order.

    >>> from empowerment.bench import tasks
    >>> task = tasks("tree")[0]
    >>> score(task, task.truth().nats).r2
    1.0
    """
    truth, values = task.truth(), check_values(task, values)
    error, spread = values - truth.nats, truth.nats - truth.nats.mean()
    constant = bool(np.ptp(truth.nats) < 1e-9)
    flat = constant or bool(np.ptp(values) < 1e-12)
    regret, share = _regret(task, truth, values)
    return Scores(
        r2=math.nan if constant else float(1 - (error**2).sum() / (spread**2).sum()),
        pearson=math.nan if flat else float(np.corrcoef(values, truth.nats)[0, 1]),
        bias=float(error.mean()),
        max_error=float(np.abs(error).max()),
        relative_error=float(np.abs(error).max() / max(truth.nats.mean(), 1e-12)),
        regret=regret,
        regret_share=share,
        violations=int((values > truth.upper + VIOLATION).sum()),
    )


def check_values(task: Task, values: Any) -> np.ndarray:
    """Values as an array; a ValueError says what is wrong with them."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"values of task {task.name!r} are no list of numbers; give one number for each state"
        ) from None
    expected = len(task.truth().nats)
    if array.shape != (expected,):
        raise ValueError(
            f"values of task {task.name!r} have shape {array.shape}; give {expected}, one for each "
            "state"
        )
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(
            f"values of task {task.name!r} hold {array[bad]} at place {bad}; give finite numbers "
            "of nats"
        )
    return array


def time_to(curve: list[tuple[float, np.ndarray]], truth: Truth, wanted: float = WANTED) -> float:
    """Seconds until R² was first reached, of a list of (seconds, values); NaN if it never was."""
    spread = ((truth.nats - truth.nats.mean()) ** 2).sum()
    for seconds, values in curve:
        if spread and 1 - ((values - truth.nats) ** 2).sum() / spread >= wanted:
            return seconds
    return math.nan


def _regret(task: Task, truth: Truth, values: np.ndarray) -> tuple[float, float]:
    """What is lost by acting on the estimate, in nats and as a share of what could be lost."""
    index, odds = _successors(task)
    if index is None or odds is None or not len(index):
        return math.nan, math.nan
    # One more entry for the states in which an episode ends, which are worth nothing.
    worth, seen = ((odds * np.append(x, 0.0)[index]).sum(-1) for x in (truth.nats, values))
    best, worst = worth.max(-1), worth.min(-1)
    taken = np.take_along_axis(worth, seen.argmax(-1)[:, None], 1)[:, 0]
    lost, range_ = float((best - taken).mean()), float((best - worst).mean())
    return lost, lost / range_ if range_ > 1e-9 else 0.0


@cache
def _successors(task: Task) -> tuple[np.ndarray | None, np.ndarray | None]:
    """For each state whose outcomes all are states of the task or ends of an episode: their numbers
    `[n, actions, outcomes]` (ends have the one after the last) and odds."""
    if task.kind == "channel":
        return None, None
    world = task.landscape_world()
    if not world.enumerable:
        return None, None
    states = task.states()
    keys = identify(states)
    after, odds = outcomes(world, states)
    reached = identify(after).reshape(odds.shape)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], reached), len(keys) - 1)
    over = np.asarray(world.terminal(after)).reshape(odds.shape)
    index = np.where(over, len(keys), order[place])
    known = (over | (keys[order[place]] == reached)).all(axis=(1, 2))
    return index[known], odds[known]
