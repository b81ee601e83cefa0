"""Capacity of discrete channels, with a proof of its error; all values in nats.

A channel is a matrix: its rows are inputs (action sequences a), its columns are outputs (end states
s'). The objective is the paper's constrained one, F(w) = (1/beta) H(a) - H(a|s') = I(a; s') + c
H(a) with c = 1/beta - 1, maximised over the source w. For beta <= 1 it is concave, and any source p
and any output distribution q bracket its maximum, with D_x = KL(W_x || q):

sum_x p_x D_x(pW) + c H(p)  <=  max F  <=  c ln sum_x exp(D_x(q) / c)      (max_x D_x(q) where c =
0).

`capacity` and `capacities` close the bracket with a primal-dual interior-point Newton method. Its p
and ln q are separate unknowns, so that rounding in the linear algebra enters the lower bound only
to second order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr, softmax, xlogy

from .distributions import sum_tolerance
from .interior_point import (
    EPSILON,
    Best,
    Channels,
    bounds,
    interior_point,
    log_of_output,
    log_sum,
    times,
)

Array = NDArray[np.float64]

SMALLEST_TOLERANCE = 1e-11
"""Below this, rounding in float64 is wider than the bracket that is asked for."""
SMALLEST_BETA = 1e-6
"""Below this, F is the entropy of the source to within rounding."""
BLOCK = 2**17
"""Entries of the channels solved together: 1 MiB, which stays in the cache and bounds the memory.
"""


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

    def __repr__(self) -> str:
        return (
            f"<Capacity: {self.nats:.6f} nats of {len(self.source):,} inputs, bounds within "
            f"{self.upper - self.lower:.1g} nats; {self.status}>"
        )

    @property
    def nats(self) -> float:
        """The value to report, which is `lower`: attained, and nearer to the truth than the
        middle."""
        return self.lower

    @property
    def bits(self) -> float:
        return self.nats / float(np.log(2))


def capacity(matrix: ArrayLike, beta: float = 1.0, tolerance: float = 1e-9) -> Capacity:
    """Maximum of F(w) = (1/beta) H(a) - H(a|s') over sources, bracketed to `tolerance` nats where
    beta <= 1.

    For beta > 1, F is not concave: the result is then the fixed point of the paper's iteration
    (appendix C) from the uniform source, `lower` its value, and `upper` a bound on every source
    that need not be near.

    >>> round(capacity([[0.9, 0.1], [0.1, 0.9]]).bits, 3)
    0.531
    """
    check_parameters(beta, tolerance)
    return _solve_all([_checked(matrix)], beta, tolerance)[0]


def capacities(
    matrices: Sequence[ArrayLike], beta: float = 1.0, tolerance: float = 1e-9
) -> list[Capacity]:
    """`capacity` of many channels of any shapes, in order; those of similar shape are solved
    together."""
    check_parameters(beta, tolerance)
    arrays = [_checked(matrix, f"matrices[{i}]") for i, matrix in enumerate(matrices)]
    first, which = _distinct(arrays)
    results = _solve_all([arrays[i] for i in first], beta, tolerance)
    return [results[i] for i in which]


def brackets(matrices: Sequence[Array], tolerance: float) -> Array:
    """`float64[n, 2]`: `lower` and `upper` of `capacities` and nothing else, in a fraction of the
    time.

    Nothing is checked: rows must be distributions to within rounding, none of them twice, as in
    K-step channels.
    """
    first, which = _distinct(matrices)
    channels = [_unreduced(matrices[i]) for i in first]
    results = np.empty((len(channels), 2))
    for block, best in _solutions(channels, 0.0, tolerance):
        results[block] = np.stack([best.lower, best.upper], axis=1)
    return results[which]


def _distinct(arrays: Sequence[Array]) -> tuple[list[int], list[int]]:
    """Positions of channels that differ, and for every channel which of these it is: a map repeats
    itself."""
    keys = [(array.shape, blake2b(array.data, digest_size=16).digest()) for array in arrays]
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    numbers = {key: number for number, key in enumerate(first)}
    return list(first.values()), [numbers[key] for key in keys]


def posterior(matrix: ArrayLike, source: ArrayLike) -> Array:
    """Appendix C, optimal decoder: q*(a|s') = p(s'|a) w(a) / sum_a p(s'|a) w(a), one column for
    each s'.

    Outputs that the source never reaches tell nothing: their column is the source itself.
    """
    channel, prior = np.asarray(matrix, float), np.asarray(source, float)[:, None]
    # Scaled by its largest entry first, since the product of two tiny numbers would vanish.
    largest = channel.max(axis=0)
    joint = prior * (channel / np.where(largest > 0, largest, 1.0))
    total = joint.sum(axis=0)
    return np.where(total > 0, joint / np.where(total > 0, total, 1.0), prior)


def source_update(matrix: ArrayLike, decoder: ArrayLike, beta: float = 1.0) -> Array:
    """Optimal source for a decoder, w(a) = exp(beta u(a)) / Z, u(a) = E_p(s'|a)[ln q(a|s')]
    (section 4.2)."""
    utility = xlogy(np.asarray(matrix, float), np.asarray(decoder, float)).sum(axis=1)
    if np.isneginf(utility).all():
        raise ValueError(
            "decoder gives no row of matrix a chance at all its outputs: give positive entries."
        )
    return softmax(beta * utility)


def divergences(matrix: ArrayLike, source: ArrayLike) -> Array:
    """D_x = KL(W_x || pW): what each input tells of itself; all equal C where the best source is
    positive."""
    channel = np.asarray(matrix, float)
    return rel_entr(channel, np.asarray(source, float) @ channel).sum(axis=1)


def blahut_arimoto(
    matrix: ArrayLike, beta: float = 1.0, tolerance: float = 1e-9, max_iterations: int = 100_000
) -> Capacity:
    """Appendix C from the uniform source, w_{t+1}(a) = w_t(a)^beta exp(beta D_a) / Z, for any beta
    > 0.

    Stops when the bracket closes (beta <= 1) or no probability moves by more than `tolerance` (beta
    > 1). Plain, for reference: `capacity` takes a hundredth of the time.
    """
    check_parameters(beta, tolerance)
    if max_iterations < 0:
        raise ValueError(f"max_iterations is {max_iterations}: give 0 or more.")
    channel = _batch([_unreduced(_checked(matrix))], 1 / beta - 1)
    log_source = np.full_like(channel.copies, -np.log(channel.copies.size))
    iteration = 0
    while True:
        source = np.exp(log_source)
        log_output = log_of_output(channel, source)
        divergence = channel.negentropy - times(channel.rows, log_output)
        log_source = beta * (log_source + divergence)
        log_source = log_source - log_sum(log_source)
        change = float(np.abs(np.exp(log_source) - source).max()) if beta > 1 else np.nan
        settled = (
            change <= tolerance if beta > 1 else _closed(channel, source, divergence, tolerance)
        )
        if settled or iteration >= max_iterations:
            break
        iteration += 1
    source = source / source.sum()
    lower, upper = (float(bound[0]) for bound in bounds(channel, source, log_output))
    if beta > 1:
        upper = min(
            capacity(channel.rows[0]).upper, float(np.log(source.size)) / beta * (1 + 4 * EPSILON)
        )
        return Capacity(
            lower, upper, source[0], iteration, _stationary_status(change, iteration, tolerance)
        )
    return Capacity(
        lower, upper, source[0], iteration, _status(upper - lower, iteration, tolerance)
    )


def _solve_all(matrices: Sequence[Array], beta: float, tolerance: float) -> list[Capacity]:
    if beta > 1:
        return [blahut_arimoto(matrix, beta, tolerance) for matrix in matrices]
    channels = [_reduced(matrix) for matrix in matrices]
    results: dict[int, Capacity] = {}
    for block, best in _solutions(channels, 1 / beta - 1, tolerance):
        results |= {
            i: _result(channels[i], best, place, tolerance) for place, i in enumerate(block)
        }
    return [results[i] for i in range(len(channels))]


def _solutions(
    channels: Sequence["_Reduced"], c: float, tolerance: float
) -> Iterator[tuple[list[int], Best]]:
    """The channels of each block, and what was found for them."""
    for block in _blocks([channel.rows.shape for channel in channels]):
        # A step that overflows leaves a point that no bound accepts, so that the best bounds so far
        # stand.
        with np.errstate(all="ignore"):
            best = interior_point(_batch([channels[i] for i in block], c), tolerance)
        yield block, best


def _result(channel: "_Reduced", best: Best, place: int, tolerance: float) -> Capacity:
    lower, upper = float(best.lower[place]), float(best.upper[place])
    merged = np.bincount(_places(len(channel.rows), best.source.shape[1]), best.source[place])
    # Equal rows share equally: any split is best for c = 0, and only this one for c > 0.
    source = (merged / channel.copies)[channel.original]
    iterations = int(best.iterations[place])
    return Capacity(
        lower,
        upper,
        source / source.sum(),
        iterations,
        _status(upper - lower, iterations, tolerance),
    )


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
    _, first, original, copies = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    return _Reduced(matrix[first], copies.astype(float), original)


def _unreduced(matrix: Array) -> _Reduced:
    return _Reduced(matrix, np.ones(len(matrix)), np.arange(len(matrix)))


def _blocks(shapes: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    """Indices of channels to solve together: shapes within a quarter of each other, at most BLOCK
    entries."""
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
    """The next of 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, ...: small channels cost less padded than
    apart."""
    step = 2 ** max(3, (size - 1).bit_length() - 3)
    return -(-size // step) * step


def _batch(channels: Sequence[_Reduced], c: float) -> Channels:
    inputs, outputs = (
        max(sizes) for sizes in zip(*(channel.rows.shape for channel in channels), strict=True)
    )
    rows, copies = np.zeros((len(channels), inputs, outputs)), np.ones((len(channels), inputs))
    for i, channel in enumerate(channels):
        place = _places(len(channel.rows), inputs)
        rows[i, :, : channel.rows.shape[1]] = channel.rows[place]
        copies[i] = (channel.copies / np.bincount(place))[place]
    rows /= rows.sum(axis=2, keepdims=True)
    return Channels(rows, xlogy(rows, rows).sum(axis=2), copies, c)


def _places(rows: int, padded: int) -> NDArray[np.intp]:
    """Which row stands at each place of the padded channel."""
    return np.arange(padded) % rows


def _closed(channel: Channels, source: Array, divergence: Array, tolerance: float) -> bool:
    """Whether one iterate's bracket is closed; the guarded one is formed once the rough one is
    narrow."""
    if channel.c == 0 and divergence.max() - (source * divergence).sum() > tolerance:
        return False
    lower, upper = bounds(channel, source, log_of_output(channel, source))
    return float(upper[0] - lower[0]) <= tolerance


def _status(width: float, iterations: int, tolerance: float) -> str:
    if width <= tolerance:
        return (
            f"Closed to the tolerance: the bracket is {width:.1e} nats wide after {iterations} "
            "iterations."
        )
    return (
        f"Not closed: the bracket is {width:.1e} nats wide after {iterations} iterations, wider "
        "than the "
        f"tolerance {tolerance:.1e}; use lower and upper as they are, or try "
        f"tolerance={2 * width:.0e}."
    )


def _stationary_status(change: float, iterations: int, tolerance: float) -> str:
    if change <= tolerance:
        return (
            f"Stationary point after {iterations} iterations, not certified: for beta > 1 other "
            "sources may "
            "do better, up to upper at most; try beta <= 1 for a proof."
        )
    return (
        f"Not stationary: the source still moves by {change:.1e} after {iterations} iterations; "
        "try "
        f"tolerance={2 * change:.0e}, or blahut_arimoto with more max_iterations."
    )


def check_parameters(beta: float, tolerance: float) -> None:
    if not SMALLEST_BETA <= beta < np.inf:
        raise ValueError(f"beta is {beta}: give a finite number of at least {SMALLEST_BETA:g}.")
    if not SMALLEST_TOLERANCE <= tolerance < np.inf:
        raise ValueError(
            f"tolerance is {tolerance}: give a number of nats of at least {SMALLEST_TOLERANCE:g}."
        )


def _checked(matrix: ArrayLike, name: str = "matrix") -> Array:
    """The matrix in float64, whose rows are distributions to within the rounding of the type that
    they came in."""
    try:
        given = np.asarray(matrix)
        # Adding zero turns -0.0 into 0.0, so that equal rows are equal bytes.
        array = np.ascontiguousarray(given, dtype=float) + 0.0
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ):  # the last: a torch tensor that requires a gradient
        raise ValueError(
            f"{name} is not an array of real numbers: give equally long rows of numbers (a torch "
            "tensor: x.detach())."
        ) from None
    if given.ndim != 2 or given.size == 0:
        raise ValueError(f"{name} has shape {given.shape}: {_remedy(given.ndim)}.")
    total = array.sum(axis=1)
    error = np.abs(total - 1)
    if not (array.min() >= 0 and error.max() <= sum_tolerance(given.dtype, given.shape[1])):
        _check_entries(array, name)
        row = int(error.argmax())
        raise ValueError(
            f"{name} row {row} sums to {total[row]:.12g}, not 1: divide the row by that sum."
        )
    # Rows of lower precision are normalised; those of float64 stay as they are, to the last digit.
    return array if given.dtype.itemsize >= 8 else array / total[:, None]


def _remedy(dimensions: int) -> str:
    if dimensions == 1:
        return "a channel has a row for each input, so give a list of rows, [row, row, ...]"
    if dimensions == 3:
        return (
            "it holds a channel for each state; give one of them, matrix[s], or use "
            "emp.from_transitions(matrix)"
        )
    return "give at least one row and one column"


def _check_entries(array: Array, name: str) -> None:
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        row, column = (int(index[0]) for index in np.nonzero(wrong))
        value = array[row, column]
        raise ValueError(
            f"{name} has {value} at row {row}, column {column}: give finite probabilities of 0 or "
            "more."
        )
