"""Closed forms, properties over random channels, appendix C, and every kind of bad input."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from empowerment import interior_point as solver
from empowerment.capacity import (
    Capacity,
    _batch,
    _blocks,
    _rounded_up,
    _stationary_status,
    _status,
    _unreduced,
    blahut_arimoto,
    brackets,
    capacities,
    capacity,
    divergences,
    posterior,
    source_update,
)
from empowerment.interior_point import (
    _direction,
    _inverse,
    _Point,
    _respond_to_level,
    _system,
    bounds,
    log_of_output,
)

TOLERANCE = 1e-9
KINDS = ("dense", "sparse", "repeated", "nearly equal", "tiny", "counts")


def random_channel(rng: np.random.Generator, kind: str, inputs: int, outputs: int) -> np.ndarray:
    rows = rng.dirichlet(np.ones(outputs), size=inputs)
    if kind == "sparse":
        rows = rows * (rng.random(rows.shape) < 0.4)
    elif kind == "repeated":
        rows = rows[rng.integers(inputs, size=inputs)]
    elif kind == "nearly equal":
        rows = rows[:1] * (1 + 10.0 ** rng.integers(-12, -1) * rng.random(rows.shape))
    elif kind == "tiny":
        rows = rows * 10.0 ** rng.choice([0, -3, -15, -100, -300], size=rows.shape)
    elif kind == "counts":
        rows = np.floor(3 * rng.random(rows.shape))
    rows[rows.sum(axis=1) == 0, 0] = 1.0
    return rows / rows.sum(axis=1, keepdims=True)


@st.composite
def channels(draw: st.DrawFn) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = st.integers(1, 12)
    return random_channel(rng, draw(st.sampled_from(KINDS)), draw(size), draw(size))


def assert_certified(result: Capacity, inputs: int, tolerance: float = TOLERANCE) -> None:
    assert 0 <= result.lower <= result.upper <= result.lower + tolerance
    assert result.source.shape == (inputs,)
    assert (result.source >= 0).all()
    assert result.source.sum() == pytest.approx(1, abs=1e-12)
    assert result.status.startswith("Closed to the tolerance")


def objective(matrix: np.ndarray, source: np.ndarray, beta: float = 1.0) -> float:
    """(1/beta) H(a) - H(a|s'), from the joint distribution and nothing of the code under test."""
    joint = source[:, None] * matrix
    total = joint.sum(axis=0, keepdims=True)
    conditional = -sum(
        j * np.log(j / t) for row in joint for j, t in zip(row, total[0], strict=True) if j > 0
    )
    return -sum(p * np.log(p) for p in source if p > 0) / beta - conditional


def binary_entropy(p: float) -> float:
    return float(-p * np.log(p) - (1 - p) * np.log(1 - p))


def symmetric(size: int, error: float) -> np.ndarray:
    return np.full((size, size), error / (size - 1)) + np.eye(size) * (
        1 - error - error / (size - 1)
    )


def typewriter(size: int) -> np.ndarray:
    return (np.eye(size) + np.roll(np.eye(size), 1, axis=1)) / 2


CLOSED_FORMS = {
    "noiseless": (np.eye(6), np.log(6)),
    "one row": (np.array([[0.2, 0.8]]), 0.0),
    "one column": (np.ones((4, 1)), 0.0),
    "useless": (np.full((4, 3), 1 / 3), 0.0),
    "binary symmetric": (symmetric(2, 0.1), np.log(2) - binary_entropy(0.1)),
    "5-ary symmetric": (symmetric(5, 0.3), np.log(5) - binary_entropy(0.3) - 0.3 * np.log(4)),
    "erasure": (np.array([[0.7, 0.3, 0], [0, 0.3, 0.7]]), 0.7 * np.log(2)),
    "Z, half": (np.array([[1, 0], [0.5, 0.5]]), np.log(5 / 4)),
    "Z, 0.9 lost": (np.array([[1, 0], [0.9, 0.1]]), np.log1p(0.1 * 0.9**9)),
    "noisy typewriter": (typewriter(26), np.log(13)),
    "odd typewriter": (typewriter(5), np.log(5 / 2)),
    "one row of no use": (np.array([[1, 0], [0, 1], [0.5, 0.5]]), np.log(2)),
    "unequal split": (np.array([[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]), np.log(2)),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
@pytest.mark.parametrize("solve", [capacity, blahut_arimoto])
def test_closed_forms(name, solve):
    matrix, value = CLOSED_FORMS[name]
    result = solve(matrix)
    assert_certified(result, len(matrix))
    assert result.lower <= value <= result.upper
    assert result.nats == pytest.approx(value, abs=1e-9)


def test_binary_symmetric_channel_in_bits():
    assert capacity(symmetric(2, 0.1)).bits == pytest.approx(0.5310044064107188, abs=1e-9)


@pytest.mark.parametrize("beta", [0.999, 0.5, 0.1])
def test_closed_forms_below_one(beta):
    c = 1 / beta - 1
    assert capacity(np.eye(6), beta).nats == pytest.approx(np.log(6) / beta, abs=1e-9)
    assert capacity(np.full((4, 3), 1 / 3), beta).nats == pytest.approx(c * np.log(4), abs=1e-9)
    flip = symmetric(2, 0.2)
    assert capacity(flip, beta).nats == pytest.approx(
        np.log(2) / beta - binary_entropy(0.2), abs=1e-9
    )
    # Two equal rows and one apart: maximise (1/beta) H(p) - 2 p ln 2 over p, the share of each of
    # the two.
    shared = capacity(np.array([[1, 0], [1, 0], [0, 1]]), beta)
    assert shared.nats == pytest.approx(np.log(1 + 2 * np.exp(-beta * np.log(2))) / beta, abs=1e-9)
    assert shared.source[0] == shared.source[1] < shared.source[2]


def test_nats_are_attained_by_the_source():
    matrix = random_channel(np.random.default_rng(3), "dense", 9, 6)
    for beta in (1.0, 0.7, 3.0):
        result = capacity(matrix, beta)
        assert result.nats == pytest.approx(objective(matrix, result.source, beta), abs=1e-12)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(channels(), st.sampled_from([1.0, 1 - 1e-7, 0.9, 0.3]))
def test_the_bracket_closes_and_agrees_with_blahut_arimoto(matrix, beta):
    result = capacity(matrix, beta)
    assert_certified(result, len(matrix))
    plain = blahut_arimoto(matrix, beta, max_iterations=300)
    assert plain.lower <= result.upper
    assert result.lower <= plain.upper


@settings(max_examples=200, deadline=None, derandomize=True)
@given(channels(), st.sampled_from([1.0, 0.6]), st.randoms(use_true_random=False))
def test_permuting_rows_and_columns_changes_nothing(matrix, beta, random):
    rows, columns = (random.sample(range(size), size) for size in matrix.shape)
    shuffled, result = capacity(matrix[rows][:, columns], beta), capacity(matrix, beta)
    assert shuffled.nats == pytest.approx(result.nats, abs=TOLERANCE)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(channels(), st.integers(2, 4))
def test_splitting_rows_changes_nothing(matrix, copies):
    result = capacity(np.repeat(matrix, copies, axis=0))
    assert_certified(result, copies * len(matrix))
    assert result.nats == pytest.approx(capacity(matrix).nats, abs=TOLERANCE)
    assert np.ptp(result.source.reshape(-1, copies), axis=1).max() == 0


@settings(max_examples=100, deadline=None, derandomize=True)
@given(channels(), st.integers(2, 4))
def test_splitting_rows_adds_the_entropy_of_the_split(matrix, copies):
    split, beta = np.repeat(matrix, copies, axis=0), 0.8
    gained = capacity(split, beta).nats - capacity(matrix, beta).nats
    assert gained == pytest.approx((1 / beta - 1) * np.log(copies), abs=TOLERANCE)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(channels(), st.integers(0, 2**32 - 1))
def test_processing_the_output_never_raises_capacity(matrix, seed):
    rng = np.random.default_rng(seed)
    after = random_channel(rng, KINDS[seed % len(KINDS)], matrix.shape[1], int(rng.integers(1, 8)))
    assert capacity(matrix @ after).lower <= capacity(matrix).upper


@pytest.mark.parametrize("beta", [1.0, 0.7])
def test_many_equal_one_by_one(beta):
    rng = np.random.default_rng(5)
    matrices = [random_channel(rng, kind, *rng.integers(1, 40, size=2)) for kind in KINDS * 20]
    matrices += matrices[:7]
    results = capacities(matrices, beta)
    assert max(result.iterations for result in results) <= 12
    for matrix, result in zip(matrices, results, strict=True):
        assert_certified(result, len(matrix))
        alone = capacity(matrix, beta)
        assert max(result.lower, alone.lower) <= min(result.upper, alone.upper)
        assert result.nats == pytest.approx(objective(matrix, result.source, beta), abs=1e-10)


def test_brackets_alone_are_those_of_the_capacities():
    rng = np.random.default_rng(13)
    matrices = [random_channel(rng, "dense", *rng.integers(1, 20, size=2)) for _ in range(30)]
    matrices += matrices[:3]
    results = [(result.lower, result.upper) for result in capacities(matrices)]
    np.testing.assert_allclose(brackets(matrices, TOLERANCE), results, rtol=0, atol=TOLERANCE)


def test_no_channels_give_no_results():
    assert capacities([]) == []


def test_large_channels_close():
    rng = np.random.default_rng(6)
    shapes = [(1500, 60), (4, 900), (300, 299)]
    for result, (inputs, _) in zip(
        capacities([random_channel(rng, "sparse", *shape) for shape in shapes]), shapes, strict=True
    ):
        assert_certified(result, inputs)
        assert result.iterations <= 20


def test_a_singular_matrix_does_not_stop_its_block():
    inverses = _inverse(np.array([np.full((2, 2), 1e20), 2 * np.eye(2)]))
    assert np.isfinite(inverses).all()
    assert inverses[0, 0, 0] > 0
    np.testing.assert_allclose(inverses[1], np.eye(2) / 2, atol=1e-14)


@pytest.mark.parametrize("beta", [1.0, 0.6, 1.3])
def test_appendix_c_alternating_decoder_and_source_is_blahut_arimoto(beta):
    matrix = random_channel(np.random.default_rng(7), "sparse", 6, 5)
    source = np.full(6, 1 / 6)
    for iteration in range(15):
        plain = blahut_arimoto(matrix, beta, tolerance=1e-11, max_iterations=iteration)
        assert plain.iterations == iteration
        np.testing.assert_allclose(plain.source, source, rtol=1e-11, atol=1e-14)
        decoder = posterior(matrix, source)
        np.testing.assert_allclose(decoder.sum(axis=0), 1, rtol=1e-13)
        source = source_update(matrix, decoder, beta)


def test_building_blocks_by_hand():
    matrix, source = np.array([[1, 0, 0], [0.5, 0.5, 0]]), np.array([0.5, 0.5])
    # The third output is never reached: nothing is learned from it.
    np.testing.assert_allclose(
        posterior(matrix, source), [[2 / 3, 0, 0.5], [1 / 3, 1, 0.5]], rtol=1e-15
    )
    weights = np.array([2 / 3, np.sqrt(1 / 3)])
    np.testing.assert_allclose(
        source_update(matrix, posterior(matrix, source)), weights / weights.sum()
    )
    # D_0 = ln(1 / 0.75), D_1 = 0.5 ln(0.5 / 0.75) + 0.5 ln(0.5 / 0.25).
    np.testing.assert_allclose(divergences(matrix, source), [np.log(4 / 3), 0.5 * np.log(4 / 3)])
    np.testing.assert_array_equal(divergences(np.eye(2), np.array([1.0, 0.0])), [0, np.inf])


def test_posterior_of_products_too_small_for_a_float():
    matrix = np.array([[1, 1e-300], [1, 3e-300]])
    np.testing.assert_allclose(posterior(matrix, np.array([0.5, 0.5]))[:, 1], [0.25, 0.75])
    np.testing.assert_allclose(posterior(matrix, np.array([1e-300, 1.0]))[0, 1], 1e-300 / 3)


def test_a_decoder_that_rules_out_everything_is_refused():
    with pytest.raises(ValueError, match="decoder"):
        source_update(np.eye(2), np.zeros((2, 2)))


@pytest.mark.parametrize("beta", [1.2, 2.0, 5.0])
def test_above_one_the_result_is_a_stationary_point(beta):
    rng = np.random.default_rng(8)
    for kind in KINDS:
        matrix = random_channel(rng, kind, 7, 5)
        result = capacity(matrix, beta)
        assert result.status.startswith("Stationary point")
        assert "not certified" in result.status
        again = source_update(matrix, posterior(matrix, result.source), beta)
        np.testing.assert_allclose(again, result.source, atol=2e-9)
        assert result.lower == pytest.approx(objective(matrix, result.source, beta), abs=1e-10)
        assert result.lower <= result.upper <= capacity(matrix).upper + 1e-12
        for source in rng.dirichlet(np.full(7, 0.2), size=100):
            assert objective(matrix, source, beta) <= result.upper
    assert capacities([np.eye(3)], beta)[0].nats == pytest.approx(np.log(3) / beta, abs=1e-9)


def test_the_status_says_when_it_did_not_finish():
    z = np.array([[1, 0], [0.9, 0.1]])
    assert blahut_arimoto(z, max_iterations=3).status.startswith("Not closed")
    assert blahut_arimoto(z, beta=1.01, max_iterations=3).status.startswith("Not stationary")
    hopeless = capacity(random_channel(np.random.default_rng(9), "dense", 9, 9), beta=1e-6)
    assert "try tolerance" in hopeless.status
    assert hopeless.lower < hopeless.upper


def test_an_open_bracket_is_still_a_bracket():
    early = blahut_arimoto(np.array([[1, 0], [0.9, 0.1]]), max_iterations=5)
    assert early.lower < np.log1p(0.1 * 0.9**9) < early.upper


def test_results_cannot_be_changed():
    result = capacity(np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        result.source[0] = 1.0


BAD_MATRICES = {
    r"row 1 sums to 0\.9\b": [[0.5, 0.5], [0.4, 0.5]],
    r"-0\.1 at row 0, column 1": [[1.1, -0.1]],
    r"nan at row 1, column 0": [[1.0, 0.0], [np.nan, 1.0]],
    r"inf at row 0, column 1": [[0.0, np.inf]],
    r"shape \(0,\)": [],
    r"shape \(2, 0\)": np.zeros((2, 0)),
    r"shape \(2,\): a channel has a row for each input": [0.5, 0.5],
    r"shape \(1, 1, 1\): it holds a channel for each state; give one": [[[1.0]]],
    r"shape \(\)": np.array(1.0),
    "not an array of real numbers": [[1.0], [0.5, 0.5]],
    "is not an array of real": [["a", "b"]],
}


@pytest.mark.parametrize("message", BAD_MATRICES)
def test_bad_matrices(message):
    for solve in (capacity, blahut_arimoto):
        with pytest.raises(ValueError, match=rf"^matrix .*{message}.*\.$"):
            solve(BAD_MATRICES[message])
    with pytest.raises(ValueError, match=rf"^matrices\[1\] .*{message}.*\.$"):
        capacities([np.eye(2), BAD_MATRICES[message]])


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e-7])
@pytest.mark.parametrize(
    "solve", [capacity, blahut_arimoto, lambda matrix, **given: capacities([matrix], **given)]
)
def test_bad_beta(value, solve):
    with pytest.raises(ValueError, match=f"beta is {value}.*at least 1e-06"):
        solve(np.eye(2), beta=value)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e-13])
@pytest.mark.parametrize(
    "solve", [capacity, blahut_arimoto, lambda matrix, **given: capacities([matrix], **given)]
)
def test_bad_tolerance(value, solve):
    with pytest.raises(ValueError, match=f"tolerance is {value}.*at least 1e-11"):
        solve(np.eye(2), tolerance=value)


def test_bad_number_of_iterations():
    with pytest.raises(ValueError, match="max_iterations is -1"):
        blahut_arimoto(np.eye(2), max_iterations=-1)


def test_rows_that_nearly_sum_to_one_are_normalised():
    rounded = np.array([[0.9, 0.1 + 4e-10], [0.1, 0.9]])
    exact = rounded / rounded.sum(axis=1, keepdims=True)
    both = capacity(rounded, tolerance=1e-11), capacity(exact, tolerance=1e-11)
    assert both[0].nats == pytest.approx(both[1].nats, abs=1e-11)
    with pytest.raises(ValueError, match="row 0"):
        capacity(rounded + np.array([[0, 1e-8], [0, 0]]))


@pytest.mark.slow
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_a_hundred_thousand_channels_close(beta):
    rng = np.random.default_rng(10)
    for _ in range(10):
        shapes = rng.integers(1, [60, 25], size=(10_000, 2))
        matrices = [
            random_channel(rng, KINDS[i % len(KINDS)], *shape) for i, shape in enumerate(shapes)
        ]
        for matrix, result in zip(matrices, capacities(matrices, beta), strict=True):
            assert_certified(result, len(matrix))


def muroga(mp, matrix: np.ndarray):
    """C = ln sum_y exp(v_y) with W v = (sum_y W ln W): exact where every input is used, else
    None."""
    exact = mp.matrix(matrix.tolist())
    for i in range(exact.rows):
        exact[i, :] /= mp.fsum(exact[i, :])
    negentropy = mp.matrix(
        [mp.fsum(w * mp.log(w) for w in exact[i, :] if w > 0) for i in range(exact.rows)]
    )
    v = mp.lu_solve(exact, negentropy)
    total = mp.fsum(mp.exp(x) for x in v)
    source = mp.lu_solve(exact.T, mp.matrix([mp.exp(x) / total for x in v]))
    return mp.log(total) if min(source) > 0 else None


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [1e-9, 1e-11])
def test_the_bracket_holds_in_fifty_digits(tolerance):
    mp = pytest.importorskip("mpmath").mp.clone()
    mp.dps = 50
    rng, checked = np.random.default_rng(11), 0
    while checked < 50:
        size = int(rng.integers(2, 9))
        matrix = 0.5 * np.eye(size) + 0.5 * random_channel(
            rng, KINDS[checked % len(KINDS)], size, size
        )
        value = muroga(mp, matrix)
        if value is None:
            continue
        result = capacity(matrix, tolerance=tolerance)
        assert_certified(result, size, tolerance)
        assert mp.mpf(result.lower) <= value <= mp.mpf(result.upper)
        checked += 1


@pytest.mark.slow
def test_the_bracket_holds_in_fifty_digits_below_one():
    mp = pytest.importorskip("mpmath").mp.clone()
    mp.dps = 50
    rng = np.random.default_rng(12)
    for kind in KINDS * 2:
        matrix = random_channel(rng, kind, 6, 4)
        rows = [
            [w / mp.fsum(map(mp.mpf, row)) for w in map(mp.mpf, row)] for row in matrix.tolist()
        ]
        source = [mp.mpf(1) / 6] * 6
        # With beta = 1/2 every step at least halves the distance to the maximum, and F = (1/beta)
        # ln Z there.
        for _ in range(130):
            output = [
                mp.fsum(p * row[y] for p, row in zip(source, rows, strict=True)) for y in range(4)
            ]
            weights = [
                mp.sqrt(p)
                * mp.exp(
                    mp.fsum(w * mp.log(w / q) for w, q in zip(row, output, strict=True) if w) / 2
                )
                for p, row in zip(source, rows, strict=True)
            ]
            source = [weight / mp.fsum(weights) for weight in weights]
        result = capacity(matrix, beta=0.5)
        assert mp.mpf(result.lower) <= 2 * mp.log(mp.fsum(weights)) <= mp.mpf(result.upper)


def test_blahut_arimoto_stops_where_it_should():
    for beta in (1.0, 0.5, 1.5):  # the uniform source is best: nothing to do
        assert blahut_arimoto(symmetric(2, 0.1), beta, max_iterations=20).iterations == 0
    # With beta = 1/2 every step at least halves the distance to the maximum.
    assert blahut_arimoto(np.array([[1, 0], [0.9, 0.1]]), 0.5, max_iterations=100).iterations < 50


@pytest.mark.parametrize("beta", [1.5, 2.0])
def test_above_one_no_source_has_more_than_its_entropy(beta):
    result = capacity(np.eye(3), beta)
    assert np.log(3) / beta < result.upper < np.log(3) / beta + 1e-12


def test_minus_zero_is_zero():
    first, second = capacities([[[1.0, 0.0]], [[1.0, -0.0]]])
    assert first is second


def test_a_bracket_as_wide_as_the_tolerance_is_closed():
    assert _status(1e-9, 3, 1e-9).startswith("Closed")
    assert _stationary_status(1e-9, 3, 1e-9).startswith("Stationary")


def test_blocks_by_hand(monkeypatch):
    assert list(map(_rounded_up, (1, 8, 9, 64, 65, 128, 129))) == [8, 8, 16, 64, 80, 128, 160]
    assert list(_blocks([(3, 5), (9, 5), (8, 8), (3, 5)])) == [[0, 2, 3], [1]]
    monkeypatch.setattr(sys.modules["empowerment.capacity"], "BLOCK", 2 * 8 * 8)
    assert list(_blocks([(8, 8)] * 5)) == [[0, 1], [2, 3], [4]]


def test_a_closed_channel_does_not_go_on_with_its_block():
    first, second = capacities([np.eye(2), np.array([[1, 0], [0.9, 0.1]])])
    assert first.iterations == 0 < second.iterations


def test_the_output_is_normalised():
    channel = _batch([_unreduced(np.eye(2))], 0.0)
    np.testing.assert_allclose(
        np.exp(log_of_output(channel, np.array([[1.0, 3.0]]))), [[0.25, 0.75]]
    )


@pytest.mark.parametrize("c", [0.0, 1.0])
def test_bounds_are_widened_by_hand(monkeypatch, c):
    """Two rows that never meet, D = ln 2 and negentropy -ln 2 each; rounding as if floats had three
    digits."""
    monkeypatch.setattr(solver, "EPSILON", 1e-3)
    channel = _batch([_unreduced(np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]))], c)
    source, unit, one = np.array([[0.5, 0.5]]), 0.036, np.log(2)
    lower, upper = bounds(channel, source, log_of_output(channel, source))
    each = one + unit * (3 * one + 1)
    if c == 0:
        assert lower == pytest.approx([one - unit * (3 * one + 1)])
        assert upper == pytest.approx([each])
    else:  # the entropy of the source adds another ln 2
        assert lower == pytest.approx([2 * one - unit * (4 * one + 2)])
        assert upper == pytest.approx([each + one + unit * (each + one + 1)])


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_a_newton_step_solves_the_linearised_equations(shape):
    """u = ln pW, p s = product, s = t - D - c ln(m / p) and sum p = 1, each to first order."""
    rng, c = np.random.default_rng(14), 0.25
    channel = _batch([_unreduced(random_channel(rng, "dense", *shape))], c)
    p, u = rng.dirichlet(np.ones(shape[0]), 1), np.log(rng.dirichlet(np.ones(shape[1]), 1))
    t, s, product = np.full((1, 1), 2.0), 0.1 + rng.random(p.shape), rng.random(p.shape)
    point, w = _Point(p, u, t, s), channel.rows[0]
    system = _system(channel, point)
    dp, du, dt, ds = _direction(channel, point, system, _respond_to_level(channel, system), product)
    np.testing.assert_allclose(u + du, np.log(p @ w) + dp @ w / (p @ w), atol=1e-9)
    np.testing.assert_allclose(p * s + p * ds + s * dp, product, atol=1e-9)
    score = channel.negentropy - u @ w.T - c * np.log(p)
    np.testing.assert_allclose(s + ds, t + dt - score + du @ w.T + c * dp / p, atol=1e-9)
    assert dp.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("size", [2, 100, 5000])
def test_rows_may_be_rounded_as_their_type_rounds(size):
    """Rows of float32 sum to one only to within rounding; the channel is that of the normalised
    rows."""
    rng = np.random.default_rng(size)
    logits = rng.normal(size=(3, size)).astype(np.float32)
    rows = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert rows.dtype == np.float32
    exact = rows.astype(float) / rows.astype(float).sum(1, keepdims=True)
    assert capacity(rows).nats == pytest.approx(capacity(exact).nats, abs=1e-12)
    assert capacities([rows])[0].nats == capacity(rows).nats
    half = (exact[:2, :2] / exact[:2, :2].sum(1, keepdims=True)).astype(np.float16)
    assert capacity(half).nats >= 0
    with pytest.raises(ValueError, match="sums to"):
        capacity(rows * np.float32(1.01))
    with pytest.raises(ValueError, match="sums to"):
        capacity(exact * (1 + 1e-7))


def test_channels_of_other_libraries_are_taken():
    import jax.numpy as jnp

    flip = capacity([[0.9, 0.1], [0.1, 0.9]]).nats
    for dtype, rounding in ((jnp.float32, 1e-6), (jnp.bfloat16, 1e-2)):
        assert capacity(jnp.array([[0.9, 0.1], [0.1, 0.9]], dtype)).nats == pytest.approx(
            flip, abs=rounding
        )
