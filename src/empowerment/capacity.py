"""Capacity of discrete channels, with a proof of its error; all values in nats.

A channel is a matrix: its rows are inputs (action sequences a), its columns are outputs (end states s').
The objective is the paper's constrained one, F(w) = (1/beta) H(a) - H(a|s') = I(a; s') + c H(a) with
c = 1/beta - 1, maximised over the source w. For beta <= 1 it is concave, and any source p and any output
distribution q bracket its maximum, with D_x = KL(W_x || q):

    sum_x p_x D_x(pW) + c H(p)  <=  max F  <=  c ln sum_x exp(D_x(q) / c)      (max_x D_x(q) where c = 0).

`capacity` and `capacities` close the bracket with a primal-dual interior-point Newton method. Its p and ln q are
separate unknowns, so that rounding in the linear algebra enters the lower bound only to second order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, rel_entr, softmax, xlogy

Array = NDArray[np.float64]

SMALLEST_TOLERANCE = 1e-11
"""Below this, rounding in float64 is wider than the bracket that is asked for."""
SMALLEST_BETA = 1e-6
"""Below this, F is the entropy of the source to within rounding."""
ROW_SUM_ERROR = 1e-9
EPSILON = float(np.finfo(np.float64).eps)
NEWTON_LIMIT = 60
BLOCK = 2**17
"""Entries of the channels solved together: 1 MiB, which stays in the cache and bounds the memory."""
TINY = 1e-300
"""Outputs of smaller probability count as this large, to keep logarithms finite; the bracket stays valid."""


@dataclass(frozen=True, eq=False)
class Capacity:
    """The value of a channel with its bracket, in nats."""

    lower: float
    """F at `source`, rounded down: attained, so never above the maximum."""
    upper: float
    """No source does better than this."""
    source: Array
    """Distribution over the rows of the matrix that was given."""
    iterations: int
    status: str
    """One sentence: whether the bracket closed, and what to try where it did not."""

    def __post_init__(self) -> None:
        # Equal channels of `capacities` share one result.
        self.source.setflags(write=False)

    @property
    def nats(self) -> float:
        """The value to report, which is `lower`: attained, and nearer to the truth than the middle."""
        return self.lower

    @property
    def bits(self) -> float:
        return self.nats / float(np.log(2))


def capacity(matrix: ArrayLike, beta: float = 1.0, tolerance: float = 1e-9) -> Capacity:
    """Maximum of F(w) = (1/beta) H(a) - H(a|s') over sources, bracketed to `tolerance` nats where beta <= 1.

    For beta > 1, F is not concave: the result is then the fixed point of the paper's iteration (appendix C)
    from the uniform source, `lower` its value, and `upper` a bound on every source that need not be near.

    >>> round(capacity([[0.9, 0.1], [0.1, 0.9]]).bits, 3)
    0.531
    """
    _check_parameters(beta, tolerance)
    return _solve_all([_checked(matrix)], beta, tolerance)[0]


def capacities(matrices: Sequence[ArrayLike], beta: float = 1.0, tolerance: float = 1e-9) -> list[Capacity]:
    """`capacity` of many channels of any shapes, in order; those of similar shape are solved together."""
    _check_parameters(beta, tolerance)
    arrays = [_array(matrix, f"matrices[{i}]") for i, matrix in enumerate(matrices)]
    keys = [(array.shape, blake2b(array.data, digest_size=16).digest()) for array in arrays]
    # Far from walls a map repeats itself, so equal channels are solved once.
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    checked = {key: _normalised(arrays[i], f"matrices[{i}]") for key, i in first.items()}
    results = dict(zip(checked, _solve_all(list(checked.values()), beta, tolerance), strict=True))
    return [results[key] for key in keys]


def posterior(matrix: ArrayLike, source: ArrayLike) -> Array:
    """Appendix C, optimal decoder: q*(a|s') = p(s'|a) w(a) / sum_a p(s'|a) w(a), one column for each s'.

    Outputs that the source never reaches tell nothing: their column is the source itself.
    """
    channel, prior = np.asarray(matrix, float), np.asarray(source, float)[:, None]
    # Scaled by its largest entry first, since the product of two tiny numbers would vanish.
    largest = channel.max(axis=0)
    joint = prior * (channel / np.where(largest > 0, largest, 1.0))
    total = joint.sum(axis=0)
    return np.where(total > 0, joint / np.where(total > 0, total, 1.0), prior)


def source_update(matrix: ArrayLike, decoder: ArrayLike, beta: float = 1.0) -> Array:
    """Optimal source for a decoder, w(a) = exp(beta u(a)) / Z, u(a) = E_p(s'|a)[ln q(a|s')] (section 3.2)."""
    utility = xlogy(np.asarray(matrix, float), np.asarray(decoder, float)).sum(axis=1)
    if np.isneginf(utility).all():
        raise ValueError("decoder gives no row of matrix a chance at all its outputs: give positive entries.")
    return softmax(beta * utility)


def divergences(matrix: ArrayLike, source: ArrayLike) -> Array:
    """D_x = KL(W_x || pW): what each input tells of itself; all equal C where the best source is positive."""
    channel = np.asarray(matrix, float)
    return rel_entr(channel, np.asarray(source, float) @ channel).sum(axis=1)


def blahut_arimoto(
    matrix: ArrayLike, beta: float = 1.0, tolerance: float = 1e-9, max_iterations: int = 100_000
) -> Capacity:
    """Appendix C from the uniform source, w_{t+1}(a) = w_t(a)^beta exp(beta D_a) / Z, for any beta > 0.

    Stops when the bracket closes (beta <= 1) or no probability moves by more than `tolerance` (beta > 1).
    Plain, for reference: `capacity` takes a hundredth of the time.
    """
    _check_parameters(beta, tolerance)
    if max_iterations < 0:
        raise ValueError(f"max_iterations is {max_iterations}: give 0 or more.")
    channel = _batch([_unreduced(_checked(matrix))], 1 / beta - 1)
    log_source = np.full_like(channel.copies, -np.log(channel.copies.size))
    iteration = 0
    while True:
        source = np.exp(log_source)
        log_output = _log_output(channel, source)
        divergence = channel.negentropy - _times(channel.rows, log_output)
        log_source = beta * (log_source + divergence)
        log_source = log_source - _log_sum(log_source)
        change = float(np.abs(np.exp(log_source) - source).max()) if beta > 1 else np.nan
        settled = change <= tolerance if beta > 1 else _closed(channel, source, divergence, tolerance)
        if settled or iteration >= max_iterations:
            break
        iteration += 1
    source = source / source.sum()
    lower, upper = (float(bound[0]) for bound in _bounds(channel, source, log_output))
    if beta > 1:
        upper = min(capacity(channel.rows[0]).upper, float(np.log(source.size)) / beta * (1 + 4 * EPSILON))
        return Capacity(lower, upper, source[0], iteration, _stationary_status(change, iteration, tolerance))
    return Capacity(lower, upper, source[0], iteration, _status(upper - lower, iteration, tolerance))


def _solve_all(matrices: Sequence[Array], beta: float, tolerance: float) -> list[Capacity]:
    if beta > 1:
        return [blahut_arimoto(matrix, beta, tolerance) for matrix in matrices]
    reduced = [_reduced(matrix) for matrix in matrices]
    results: dict[int, Capacity] = {}
    for block in _blocks([channel.rows.shape for channel in reduced]):
        results.update(zip(block, _solved([reduced[i] for i in block], 1 / beta - 1, tolerance), strict=True))
    return [results[i] for i in range(len(reduced))]


class _Reduced(NamedTuple):
    """A channel without repeated rows and unreachable outputs, and the way back."""

    rows: Array
    copies: Array
    """How many of the original rows each row stands for."""
    original: NDArray[np.intp]
    """For each original row, the row that stands for it."""


def _reduced(matrix: Array) -> _Reduced:
    matrix = np.ascontiguousarray(matrix[:, matrix.any(axis=0)])
    keys = matrix.view(np.dtype((np.void, matrix.itemsize * matrix.shape[1]))).ravel()
    _, first, original, copies = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    return _Reduced(matrix[first], copies.astype(float), original)


def _unreduced(matrix: Array) -> _Reduced:
    return _Reduced(matrix, np.ones(len(matrix)), np.arange(len(matrix)))


def _blocks(shapes: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    """Indices of channels to solve together: shapes within a quarter of each other, at most BLOCK entries."""
    keys = [tuple(map(_rounded_up, shape)) for shape in shapes]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    start = 0
    for end in range(1, len(order) + 1):
        rows, columns = keys[order[start]]
        full = (end - start + 1) * rows * columns > BLOCK
        if end == len(order) or full or keys[order[end]] != keys[order[start]]:
            yield order[start:end]
            start = end


def _rounded_up(size: int) -> int:
    """The next of 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, ...: small channels cost less padded than apart."""
    step = 2 ** max(3, (size - 1).bit_length() - 3)
    return -(-size // step) * step


class _Batch(NamedTuple):
    """Channels of one padded shape: outputs padded with zeros, rows by sharing a row between two places."""

    rows: Array
    """(channels, inputs, outputs)"""
    negentropy: Array
    """sum_y W ln W of each row."""
    copies: Array
    """How many original rows each row stands for; a fraction where the row is shared."""
    c: float
    """1/beta - 1."""

    @property
    def columns(self) -> Array:
        return np.swapaxes(self.rows, 1, 2)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "_Batch":
        return _Batch(self.rows[index], self.negentropy[index], self.copies[index], self.c)


def _batch(channels: Sequence[_Reduced], c: float) -> _Batch:
    inputs, outputs = (max(sizes) for sizes in zip(*(channel.rows.shape for channel in channels), strict=True))
    rows, copies = np.zeros((len(channels), inputs, outputs)), np.ones((len(channels), inputs))
    for i, channel in enumerate(channels):
        place = _places(len(channel.rows), inputs)
        rows[i, :, : channel.rows.shape[1]] = channel.rows[place]
        copies[i] = (channel.copies / np.bincount(place))[place]
    return _Batch(rows, xlogy(rows, rows).sum(axis=2), copies, c)


def _places(rows: int, padded: int) -> NDArray[np.intp]:
    """Which row stands at each place of the padded channel."""
    return np.arange(padded) % rows


def _solved(channels: Sequence[_Reduced], c: float, tolerance: float) -> Iterator[Capacity]:
    # A step that overflows leaves a point that no bound accepts, so that the best bounds so far stand.
    with np.errstate(all="ignore"):
        best = _interior_point(_batch(channels, c), tolerance)
    for i, channel in enumerate(channels):
        width, iterations = float(best.upper[i] - best.lower[i]), int(best.iterations[i])
        merged = np.bincount(_places(len(channel.rows), best.source.shape[1]), best.source[i])
        # Equal rows share equally: any split is best for c = 0, and only this one for c > 0.
        source = (merged / channel.copies)[channel.original]
        status = _status(width, iterations, tolerance)
        yield Capacity(float(best.lower[i]), float(best.upper[i]), source / source.sum(), iterations, status)


def _times(matrices: Array, vectors: Array) -> Array:
    return (matrices @ vectors[..., None])[..., 0]


def _log_sum(exponents: Array, weights: Array | float = 1.0) -> Array:
    """ln sum_x m_x exp(e_x), without overflow."""
    top = exponents.max(axis=1, keepdims=True)
    return top + np.log((weights * np.exp(exponents - top)).sum(axis=1, keepdims=True))


def _log_output(channel: _Batch, source: Array) -> Array:
    """ln pW."""
    output = np.maximum(_times(channel.columns, source), TINY)
    # With a total of exactly one, the rounding of each entry enters the lower bound squared.
    return np.log(output / output.sum(axis=1, keepdims=True))


def _bounds(channel: _Batch, source: Array, log_output: Array) -> tuple[Array, Array]:
    """Both sides of the bracket, from p and from ln q (of any total), widened by what rounding can do."""
    unit = EPSILON * (channel.rows.shape[2] + 32)
    own = _log_output(channel, source)
    value = channel.negentropy - _times(channel.rows, own)
    entropy = entr(source) + source * np.log(channel.copies)
    # Each logarithm and each sum errs by a few units of the size of what is summed.
    size = source * (value - 2 * channel.negentropy) + abs(channel.c) * np.abs(entropy)
    lower = (source * value + channel.c * entropy).sum(axis=1)
    lower = lower - unit * (size.sum(axis=1) + 1 + abs(channel.c))
    if channel.c >= 0:
        lower = np.maximum(lower, 0.0)
    return lower, _upper(channel, log_output, unit)


def _upper(channel: _Batch, log_output: Array, unit: float) -> Array:
    """c ln sum_x m_x exp(D_x / c), or max_x D_x, with D_x = KL(W_x || q) for m_x equal rows."""
    value = channel.negentropy - _times(channel.rows, log_output)
    magnitude = _times(channel.rows, np.abs(log_output)) - channel.negentropy
    value = value + unit * (magnitude + 1) + _log_sum(log_output)
    if channel.c <= 0:
        return value.max(axis=1)
    soft = channel.c * _log_sum(value / channel.c, channel.copies)[:, 0]
    return soft + unit * (np.abs(soft) + channel.c)


def _closed(channel: _Batch, source: Array, divergence: Array, tolerance: float) -> bool:
    """Whether one iterate's bracket is closed; the guarded one is formed once the rough one is narrow."""
    if channel.c == 0 and divergence.max() - (source * divergence).sum() > tolerance:
        return False
    lower, upper = _bounds(channel, source, _log_output(channel, source))
    return float(upper[0] - lower[0]) <= tolerance


class _Best(NamedTuple):
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


def _interior_point(channel: _Batch, tolerance: float) -> _Best:
    """Newton steps on the channels whose bracket is still open."""
    point = _start(channel)
    count = len(channel.rows)
    best = _Best(np.full(count, -np.inf), np.full(count, np.inf), point.source.copy(), np.zeros(count, np.intp))
    left = np.arange(count)
    for iteration in range(NEWTON_LIMIT + 1):
        _record(best, left, channel, point, iteration)
        wide = best.upper[left] - best.lower[left] > tolerance
        if not wide.any():
            break
        if not wide.all():
            left, channel, point = left[wide], channel.take(wide), _Point(*(part[wide] for part in point))
        point = _newton(channel, point, tolerance)
    return best


def _record(best: _Best, left: NDArray[np.intp], channel: _Batch, point: _Point, iteration: int) -> None:
    lower, upper = _bounds(channel, point.source, point.log_output)
    better = lower > best.lower[left]
    best.source[left[better]] = point.source[better]
    best.lower[left] = np.fmax(best.lower[left], lower)
    best.upper[left] = np.fmin(best.upper[left], upper)
    best.iterations[left] = iteration


def _start(channel: _Batch) -> _Point:
    """The uniform source, its own output, and a level above every D_x by as much as the bracket is wide."""
    source = channel.copies / channel.copies.sum(axis=1, keepdims=True)
    log_output = _log_output(channel, source)
    score = _score(channel, source, log_output)
    top = score.max(axis=1, keepdims=True)
    level = top + np.maximum(top - (source * score).sum(axis=1, keepdims=True), 1e-3)
    return _Point(source, log_output, level, level - score)


def _score(channel: _Batch, source: Array, log_output: Array) -> Array:
    """The derivative of F by p_x, D_x + c ln(m_x / p_x), but for a constant."""
    value = channel.negentropy - _times(channel.rows, log_output)
    return value + channel.c * np.log(channel.copies / source) if channel.c else value


class _System(NamedTuple):
    """The Newton equations [1/d, W; W', -q] [z; v] = [b; -e], eliminated onto their smaller side."""

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


def _system(channel: _Batch, point: _Point) -> _System:
    weight = point.source / (point.slack + channel.c)
    output = np.maximum(_times(channel.columns, point.source), TINY)
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


def _by_inputs(channel: _Batch) -> bool:
    return channel.rows.shape[1] <= channel.rows.shape[2]


def _respond(channel: _Batch, system: _System, right: Array) -> tuple[Array, Array]:
    """(z, v) of the Newton equations for b = right."""
    if _by_inputs(channel):
        z = _times(system.inverse, right - _times(channel.rows, system.mismatch / system.output))
        return z, (_times(channel.columns, z) + system.mismatch) / system.output
    v = _times(system.inverse, _times(channel.columns, system.weight * right) + system.mismatch)
    return system.weight * (right - _times(channel.rows, v)), v


def _respond_to_level(channel: _Batch, system: _System) -> tuple[Array, Array]:
    """(z, v) for b = 1 and e = 0; by outputs, 1 - v = A^-1 q avoids a difference of nearly equal numbers."""
    if _by_inputs(channel):
        z = system.inverse.sum(axis=2)
        return z, _times(channel.columns, z) / system.output
    rest = _times(system.inverse, system.output)
    return system.weight * _times(channel.rows, rest), 1 - rest


def _newton(channel: _Batch, point: _Point, tolerance: float) -> _Point:
    """One Mehrotra step towards p s = mu, u = ln pW, s = t - D - c ln(m / p), sum p = 1."""
    system = _system(channel, point)
    level = _respond_to_level(channel, system)
    mu = (point.source * point.slack).mean(axis=1, keepdims=True)
    trial = _direction(channel, point, system, level, np.zeros_like(mu))
    after = _moved(point, trial, 1.0)
    ratio = (after.source * after.slack).mean(axis=1, keepdims=True) / mu
    # Products far below the tolerance gain nothing and cost accuracy.
    target = np.maximum(np.clip(ratio, 0, 1) ** 3 * mu, 0.1 * tolerance / channel.rows.shape[1])
    step = _direction(channel, point, system, level, target - trial.source * trial.slack)
    moved = _moved(point, step, 0.99)
    return moved._replace(source=moved.source / moved.source.sum(axis=1, keepdims=True))


def _direction(channel: _Batch, point: _Point, system: _System, level: tuple[Array, Array], product: Array) -> _Point:
    """Newton direction to (p + dp)(s + ds) = product, to first order."""
    z, v = _respond(channel, system, product / point.source + system.residual)
    rise = z.sum(axis=1, keepdims=True) / level[0].sum(axis=1, keepdims=True)
    source = z - rise * level[0]
    slack = (product - point.slack * source) / point.source - point.slack
    return _Point(source, v - rise * level[1], rise, slack)


def _moved(point: _Point, step: _Point, share: float) -> _Point:
    """Along the step as far as this share of the way to where p, or s, would reach zero."""
    primal, dual = _reach(point.source, step.source, share), _reach(point.slack, step.slack, share)
    return _Point(
        point.source + primal * step.source,
        point.log_output + dual * step.log_output,
        point.level + dual * step.level,
        point.slack + dual * step.slack,
    )


def _reach(positive: Array, change: Array, share: float) -> Array:
    steepest = (-change / positive).max(axis=1, keepdims=True)
    return share / np.maximum(steepest, share)


def _status(width: float, iterations: int, tolerance: float) -> str:
    if width <= tolerance:
        return f"Closed to the tolerance: the bracket is {width:.1e} nats wide after {iterations} iterations."
    return (
        f"Not closed: the bracket is {width:.1e} nats wide after {iterations} iterations, wider than the "
        f"tolerance {tolerance:.1e}; use lower and upper as they are, or try tolerance={2 * width:.0e}."
    )


def _stationary_status(change: float, iterations: int, tolerance: float) -> str:
    if change <= tolerance:
        return (
            f"Stationary point after {iterations} iterations, not certified: for beta > 1 other sources may "
            "do better, up to upper at most; try beta <= 1 for a proof."
        )
    return (
        f"Not stationary: the source still moves by {change:.1e} after {iterations} iterations; try "
        f"tolerance={2 * change:.0e}, or blahut_arimoto with more max_iterations."
    )


def _check_parameters(beta: float, tolerance: float) -> None:
    if not SMALLEST_BETA <= beta < np.inf:
        raise ValueError(f"beta is {beta}: give a finite number of at least {SMALLEST_BETA:g}.")
    if not SMALLEST_TOLERANCE <= tolerance < np.inf:
        raise ValueError(f"tolerance is {tolerance}: give a number of nats of at least {SMALLEST_TOLERANCE:g}.")


def _checked(matrix: ArrayLike) -> Array:
    return _normalised(_array(matrix, "matrix"), "matrix")


def _array(matrix: ArrayLike, name: str) -> Array:
    try:
        array = np.ascontiguousarray(matrix, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not an array of real numbers: give equally long rows of numbers.") from None
    if np.ndim(matrix) != 2 or array.size == 0:
        raise ValueError(f"{name} has shape {np.shape(matrix)}: give at least one row and one column.")
    return array


def _normalised(array: Array, name: str) -> Array:
    """Rows that sum to one, or a ValueError that names what is wrong."""
    total = array.sum(axis=1, keepdims=True)
    error = np.abs(total - 1)
    if not (array.min() >= 0 and error.max() <= ROW_SUM_ERROR):
        _check_entries(array, name)
        row = int(error.argmax())
        raise ValueError(f"{name} row {row} sums to {total[row, 0]:.12g}, not 1: divide the row by that sum.")
    # Adding zero turns -0.0 into 0.0, so that equal rows are equal bytes.
    return array / total + 0.0


def _check_entries(array: Array, name: str) -> None:
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        row, column = (int(index[0]) for index in np.nonzero(wrong))
        value = array[row, column]
        raise ValueError(f"{name} has {value} at row {row}, column {column}: give finite probabilities of 0 or more.")
