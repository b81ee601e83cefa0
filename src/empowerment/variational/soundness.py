"""Checks for NaN and infinity after each chunk of updates. They are traced to their cause, and no
checkpoint with them is written."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .learner import Info, LearnerPolicy
from .trees import flatten


def refuse_nonsense(
    run: Any, chunk: Callable[[Any, int], Any], before: Any, after: Any, info: Info
) -> None:
    """A ValueError where a chunk of updates from `before` to `after` met NaN or infinity."""
    bad = np.flatnonzero(~np.all([np.isfinite(value) for value in info], axis=0))
    weights = _not_finite(after.learner.model)
    if not len(bad) and not weights:
        return
    done = int(before.learner.updates)
    first = int(bad[0]) if len(bad) else len(info.bound) - 1
    # On the host there is no going back, and its observations are checked as they come; nor is
    # there with several processes, which cannot look at the arrays of others.
    cause = (
        None
        if run.collector.on_host or jax.process_count() > 1
        else _cause_before(run, chunk, before, first)
    )
    cause = cause or _cause(info, first, weights)
    raise ValueError(
        f"{cause} in update {done + first + 1}; nothing after update {done} is kept: "
        "correct the observations, or train again with a lower learning_rate"
    )


def refuse_bad_update(info: Info, done: int) -> None:
    """The same for a single update, where only its numbers are known."""
    for name, value in info._asdict().items():
        if not np.isfinite(value):
            raise ValueError(
                f"{name} became {float(value)} in update {done + 1}, which is not kept; lower "
                "learning_rate"
            )


def checked_sample(frames: Any) -> Any:
    """Return the first observations unchanged. NaN or infinity in them raises a ValueError before
    training starts."""
    if not np.isfinite(np.asarray(frames)).all():
        raise ValueError(
            "the world's observations (observe) contain NaN or infinity; mend them first"
        )
    return frames


def _cause_before(
    run: Any, chunk: Callable[[Any, int], Any], before: Any, first: int
) -> str | None:
    """What was wrong when an update began. The updates before it are repeated: the same seed, the
    same numbers."""
    carry = chunk(before, first)[0] if first else before
    weights = _not_finite(carry.learner.model)
    if weights:
        return f"weights {weights!r} became NaN or infinity before the loss was taken"
    _, now = jax.random.split(carry.key)
    _, batch = run.collector.collect(
        carry.agents, LearnerPolicy(run.learner, carry.learner), key=now
    )
    frames = getattr(batch, "frames", None)  # gradients through a model begin with states
    sound = all(np.isfinite(np.asarray(x)).all() for x in jax.tree.leaves(frames))
    return None if sound else "an observation was NaN or infinity"


def _cause(info: Info, first: int, weights: str | None) -> str:
    """The first of an update's numbers that is none: the losses come before the gradient."""
    for name, values in info._asdict().items():
        if not np.isfinite(values[first]):
            return f"{name} became {float(values[first])}, of finite observations and weights,"
    return f"weights {weights!r} became NaN or infinity"


def _not_finite(model: Any) -> str | None:
    """The name of the first array that holds NaN or infinity."""
    return next(
        (name for name, array in flatten(model).items() if not np.isfinite(array).all()), None
    )
