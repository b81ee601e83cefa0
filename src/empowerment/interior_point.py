"""The solver behind `capacity`: a primal-dual interior-point Newton method on many channels at
once.

It minimises over output distributions q the largest (for c > 0: the soft largest) D_x = KL(W_x ||
q). Its multipliers are the source p. Every iterate brackets the capacity, whatever rounding has
done to it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

Array = NDArray[np.float64]

EPSILON = float(np.finfo(np.float64).eps)
NEWTON_LIMIT = 60
TINY = 1e-300
"""Outputs of smaller probability count as this large, to keep logarithms finite; the bracket stays
valid."""


class Channels(NamedTuple):
    """Channels of one padded shape: outputs padded with zeros, rows by sharing a row between two
    places."""

    rows: Array
    """(channels, inputs, outputs)"""
    negentropy: Array
    """sum_y W ln W of each row."""
    copies: Array
    """How many original rows each row stands for; a fraction where the row is shared."""
    c: float
    """1/beta - 1."""
    rewards: Array | float = 0.0
    """Added to D_x: what an input is worth by itself, at most 0. The objective is then sum_x p_x
    (D_x + r_x) and its bound max_x (D_x + r_x)."""

    @property
    def columns(self) -> Array:
        return np.swapaxes(self.rows, 1, 2)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "Channels":
        rewards = self.rewards[index] if isinstance(self.rewards, np.ndarray) else self.rewards
        return Channels(
            self.rows[index], self.negentropy[index], self.copies[index], self.c, rewards
        )


def times(matrices: Array, vectors: Array) -> Array:
    return (matrices @ vectors[..., None])[..., 0]


def log_sum(exponents: Array, weights: Array | float = 1.0) -> Array:
    """ln sum_x m_x exp(e_x), without overflow."""
    top = exponents.max(axis=1, keepdims=True)
    return top + np.log((weights * np.exp(exponents - top)).sum(axis=1, keepdims=True))


def log_of_output(channel: Channels, source: Array) -> Array:
    """ln pW."""
    output = np.maximum(times(channel.columns, source), TINY)
    # With a total of exactly one, the rounding of each entry enters the lower bound squared.
    return np.log(output / output.sum(axis=1, keepdims=True))


def bounds(channel: Channels, source: Array, log_output: Array) -> tuple[Array, Array]:
    """Both sides of the bracket, from p and from ln q (of any total), widened by what rounding can
    do."""
    unit = EPSILON * (channel.rows.shape[2] + 32)
    own = log_of_output(channel, source)
    value = channel.negentropy - times(channel.rows, own)
    terms = source * (value + channel.rewards)
    # Each logarithm and each sum errs by a few units of the size of what is summed.
    size = source * (value - 2 * channel.negentropy - channel.rewards)
    if channel.c:
        entropy = channel.c * (entr(source) + source * np.log(channel.copies))
        terms, size = terms + entropy, size + np.abs(entropy)
    lower = terms.sum(axis=1) - unit * (size.sum(axis=1) + 1 + abs(channel.c))
    if channel.c >= 0 and not isinstance(channel.rewards, np.ndarray):
        lower = np.maximum(lower, 0.0)  # the best source does no worse than one certain input
    return lower, _upper(channel, log_output, unit)


def _upper(channel: Channels, log_output: Array, unit: float) -> Array:
    """c ln sum_x m_x exp(D_x / c), or max_x D_x, with D_x = KL(W_x || q) for m_x equal rows."""
    value = channel.negentropy - times(channel.rows, log_output - log_sum(log_output))
    value = value + unit * (value - 2 * channel.negentropy + 1 - channel.rewards)
    value = value + channel.rewards
    if channel.c <= 0:
        return value.max(axis=1)
    soft = channel.c * log_sum(value / channel.c, channel.copies)[:, 0]
    return soft + unit * (np.abs(soft) + channel.c)


class Best(NamedTuple):
    """The tightest bounds seen so far: every iterate's are valid."""

    lower: Array
    upper: Array
    source: Array
    iterations: NDArray[np.intp]


class _Point(NamedTuple):
    """An iterate of the interior-point method for min_q max_x D_x(q)."""

    source: Array
    """p > 0, the multiplier of D_x <= t."""
    log_output: Array
    """u = ln q, which equals ln pW at the solution only."""
    level: Array
    """t."""
    slack: Array
    """s > 0, at the solution t - D_x - c ln(m_x / p_x)."""


def interior_point(channel: Channels, tolerance: float) -> Best:
    """Newton steps on the channels whose bracket is still open."""
    point = _start(channel)
    count = len(channel.rows)
    best = Best(
        np.full(count, -np.inf),
        np.full(count, np.inf),
        point.source.copy(),
        np.zeros(count, np.intp),
    )
    left = np.arange(count)
    for iteration in range(NEWTON_LIMIT + 1):
        _record(best, left, channel, point, iteration)
        wide = best.upper[left] - best.lower[left] > tolerance
        if not wide.any():
            break
        if not wide.all():
            left, channel, point = (
                left[wide],
                channel.take(wide),
                _Point(*(part[wide] for part in point)),
            )
        point = _newton(channel, point, tolerance)
    return best


def _record(
    best: Best, left: NDArray[np.intp], channel: Channels, point: _Point, iteration: int
) -> None:
    lower, upper = bounds(channel, point.source, point.log_output)
    better = lower > best.lower[left]
    best.source[left[better]] = point.source[better]
    best.lower[left] = np.fmax(best.lower[left], lower)
    best.upper[left] = np.fmin(best.upper[left], upper)
    best.iterations[left] = iteration


def _start(channel: Channels) -> _Point:
    """The uniform source, its own output, and a level above every D_x by as much as the bracket is
    wide."""
    source = channel.copies / channel.copies.sum(axis=1, keepdims=True)
    log_output = log_of_output(channel, source)
    score = _score(channel, source, log_output)
    top = score.max(axis=1, keepdims=True)
    level = top + np.maximum(top - (source * score).sum(axis=1, keepdims=True), 1e-3)
    return _Point(source, log_output, level, level - score)


def _score(channel: Channels, source: Array, log_output: Array) -> Array:
    """The derivative of F by p_x, D_x + r_x + c ln(m_x / p_x), except for a constant."""
    value = channel.negentropy - times(channel.rows, log_output) + channel.rewards
    return value + channel.c * np.log(channel.copies / source) if channel.c else value


class _System(NamedTuple):
    """The Newton equations [1/d, W; W', -q] [z; v] = [b; -e], eliminated onto their smaller
    side."""

    inverse: Array
    """Of W' diag(d) W + diag(q), or of W diag(1/q) W' + diag(1/d) where inputs are the fewer."""
    weight: Array
    """d = p / (s + c)."""
    output: Array
    """q = pW."""
    mismatch: Array
    """e = q (ln q - u)."""
    residual: Array
    """D + c ln(m / p) - t."""


def _system(channel: Channels, point: _Point) -> _System:
    weight = point.source / (point.slack + channel.c)
    output = np.maximum(times(channel.columns, point.source), TINY)
    inner, outer = np.sqrt(weight)[:, :, None], 1 / np.sqrt(output)
    if _by_inputs(channel):
        inner, outer = 1 / np.sqrt(output)[:, None, :], np.sqrt(weight)
    half = channel.rows * inner
    half = half if _by_inputs(channel) else np.swapaxes(half, 1, 2)
    both = outer[:, :, None] * outer[:, None, :]
    # Identity plus a Gram matrix: no eigenvalue is below one, whatever the probabilities.
    gram: Array = np.eye(outer.shape[1]) + both * (half @ np.swapaxes(half, 1, 2))
    mismatch = output * (np.log(output) - point.log_output)
    residual = _score(channel, point.source, point.log_output) - point.level
    return _System(both * _inverse(gram), weight, output, mismatch, residual)


def _inverse(matrices: Array) -> Array:
    """Inverses; one matrix that is singular to rounding does not stop the others of its block."""
    try:
        return np.asarray(np.linalg.inv(matrices), np.float64)
    except np.linalg.LinAlgError:
        size = matrices.shape[1]
        shift = 4 * size * EPSILON * np.abs(matrices).max(axis=(1, 2), keepdims=True)
        return np.asarray(np.linalg.inv(matrices + shift * np.eye(size)), np.float64)


def _by_inputs(channel: Channels) -> bool:
    return channel.rows.shape[1] <= channel.rows.shape[2]


def _respond(channel: Channels, system: _System, right: Array) -> tuple[Array, Array]:
    """(z, v) of the Newton equations for b = right."""
    if _by_inputs(channel):
        z = times(system.inverse, right - times(channel.rows, system.mismatch / system.output))
        return z, (times(channel.columns, z) + system.mismatch) / system.output
    v = times(system.inverse, times(channel.columns, system.weight * right) + system.mismatch)
    return system.weight * (right - times(channel.rows, v)), v


def _respond_to_level(channel: Channels, system: _System) -> tuple[Array, Array]:
    """(z, v) for b = 1 and e = 0; by outputs, 1 - v = A^-1 q avoids a difference of nearly equal
    numbers."""
    if _by_inputs(channel):
        z = system.inverse.sum(axis=2)
        return z, times(channel.columns, z) / system.output
    rest = times(system.inverse, system.output)
    return system.weight * times(channel.rows, rest), 1 - rest


def _newton(channel: Channels, point: _Point, tolerance: float) -> _Point:
    """One Mehrotra step towards p s = mu, u = ln pW, s = t - D - c ln(m / p), sum p = 1."""
    system = _system(channel, point)
    level = _respond_to_level(channel, system)
    inputs = channel.rows.shape[1]
    mu = _gap(point) / inputs
    trial = _direction(channel, point, system, level, 0.0)
    ratio = _gap(_moved(point, trial, 1.0)) / inputs / mu
    # Products far below the tolerance gain nothing and cost accuracy.
    target = np.maximum(np.minimum(ratio, 1.0) ** 3 * mu, 0.1 * tolerance / inputs)
    step = _direction(channel, point, system, level, target - trial.source * trial.slack)
    # As near to the border as the trial went to the end, so that the last steps are quadratic.
    moved = _moved(point, step, np.clip(1 - ratio, 0.99, 1 - 1e-6))
    return moved._replace(source=moved.source / moved.source.sum(axis=1, keepdims=True))


def _gap(point: _Point) -> Array:
    """sum p s, which is the width of the bracket once t, q and p agree."""
    return (point.source * point.slack).sum(axis=1, keepdims=True)


def _direction(
    channel: Channels,
    point: _Point,
    system: _System,
    level: tuple[Array, Array],
    product: Array | float,
) -> _Point:
    """Newton direction to (p + dp)(s + ds) = product, to first order."""
    z, v = _respond(channel, system, product / point.source + system.residual)
    rise = z.sum(axis=1, keepdims=True) / level[0].sum(axis=1, keepdims=True)
    source = z - rise * level[0]
    slack = (product - point.slack * source) / point.source - point.slack
    return _Point(source, v - rise * level[1], rise, slack)


def _moved(point: _Point, step: _Point, share: Array | float) -> _Point:
    """Along the step as far as this share of the way to where p, or s, would reach zero."""
    primal, dual = _reach(point.source, step.source, share), _reach(point.slack, step.slack, share)
    return _Point(
        point.source + primal * step.source,
        point.log_output + dual * step.log_output,
        point.level + dual * step.level,
        point.slack + dual * step.slack,
    )


def _reach(positive: Array, change: Array, share: Array | float) -> Array:
    steepest = (-change / positive).max(axis=1, keepdims=True)
    return share / np.maximum(steepest, share)
