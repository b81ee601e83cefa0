"""Importance sampling (appendix B.1) against `emp.capacity` and closed forms."""

import numpy as np
import pytest
from scipy.special import rel_entr

import empowerment as emp
from empowerment.channel import channel, rows_of
from empowerment.model_based import importance as module
from empowerment.model_based.importance import (
    Discrete,
    Normal,
    importance,
    importance_landscape,
    reweighted,
)

MAP = "#######\n#.....#\n#a..#.#\n#.....#\n#######\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "small.txt"
    path.write_text(MAP)
    return emp.make(path, slip=0.2)


class Mean:
    """A discrete channel whose first ends are drawn in exact proportion: J draws without luck, for
    tests by hand."""

    def __init__(self, matrix, draws):
        self.matrix, self.size, self._draws = np.asarray(matrix), len(matrix), draws

    def draw(self, which, rng):
        if not np.array_equal(which, np.repeat(np.arange(self.size), self._draws)):
            return Discrete(self.matrix).draw(which, rng)
        counts = np.rint(self.matrix * self._draws).astype(int)
        ends = np.concatenate([np.repeat(np.arange(counts.shape[1]), row) for row in counts])
        return module.Draws(np.arange(counts.shape[1]), ends, np.log(self.matrix[which, ends]))

    def log_density(self, ends):
        return Discrete(self.matrix).log_density(ends)


def test_the_weights_stay_normalised_in_the_log_domain():
    """The normaliser is ln Σ α exp D; weights far below the smallest float keep their order."""
    log_weights = reweighted(np.log([0.5, 0.5]), np.array([2.0, -2000.0]))
    assert log_weights == pytest.approx([0.0, -2002.0])
    assert np.exp(reweighted(np.log([0.25, 0.75]), np.log([4.0, 2.0]))) == pytest.approx([0.4, 0.6])


def test_a_step_is_a_blahut_arimoto_step():
    matrix = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.2, 0.6, 0.2]])
    result = importance(Mean(matrix, 10), draws=10, iterations=1, tolerance=1e-12)
    first = rel_entr(matrix, matrix.mean(0)).sum(1)
    weights = np.exp(first) / np.exp(first).sum()
    assert result.weights == pytest.approx(weights)
    assert result.adapted == pytest.approx(weights @ rel_entr(matrix, weights @ matrix).sum(1))
    assert result.effective == pytest.approx(1 / (weights**2).sum())
    assert "Not settled" in result.status


def test_without_luck_the_weights_reach_capacity():
    matrix = np.array([[0.9, 0.1], [0.3, 0.7], [0.1, 0.9]])
    result = importance(Mean(matrix, 10), draws=10, tolerance=1e-7, iterations=10_000)
    assert result.adapted == pytest.approx(emp.capacity(matrix).nats, abs=1e-6)
    assert "Settled" in result.status


def test_rows_of_sequences_are_rows_of_the_channel(world):
    whole, _ = channel(world, world.start, 3)
    rows = rows_of(world, world.start, whole.sequences)
    assert sorted(map(tuple, rows.round(12))) == sorted(map(tuple, whole.matrix.round(12)))


def test_error_falls_as_sequences_and_draws_grow(world):
    truth = emp.exact(world, 2)
    errors = []
    for sequences, draws in ((5, 3), (400, 30)):
        estimate = importance_landscape(world, 2, sequences=sequences, draws=draws, seed=1)
        errors.append(np.sqrt(((estimate.nats - truth.nats) ** 2).mean()))
    assert errors[0] > 0.3
    assert errors[1] < 0.03


def test_fresh_ends_never_promise_more_than_the_truth(world):
    """With few draws the paper's estimate lies above capacity; the one from fresh ends does not."""
    truth = emp.exact(world, 2, world.start).nats[0]
    rng = np.random.default_rng(0)
    for seed in range(3):
        model = module.sampled_rows(world, world.start, 2, 400, rng)
        estimate = importance(model, draws=3, seed=seed)
        assert estimate.adapted > truth + 0.3
        assert estimate.nats < truth + 3 * estimate.error
        assert estimate.error < 0.1


def test_gaussian_channel_with_a_power_constraint():
    power, rng = 4.0, np.random.default_rng(0)
    x = 3 * rng.standard_normal((200, 1))
    estimate = importance(Normal(x, np.ones_like(x)), draws=100, cost=x[:, 0] ** 2, budget=power)
    closed = 0.5 * np.log(1 + power)
    assert abs(estimate.nats - closed) < 0.02 * closed + 3 * estimate.error
    assert estimate.weights @ x[:, 0] ** 2 <= power * (1 + 1e-9)
    assert 2 < estimate.effective < 100


def test_memory_is_bounded_by_blocks(monkeypatch):
    x = np.random.default_rng(0).standard_normal((50, 2))
    model, shapes = Normal(x, np.full_like(x, 0.5)), []
    kept = importance(model, draws=4, iterations=20)
    original = Normal.log_density
    monkeypatch.setattr(
        Normal,
        "log_density",
        lambda self, ends: (shapes.append(len(ends)), original(self, ends))[1],
    )
    monkeypatch.setattr(module, "BLOCK", 500)
    monkeypatch.setattr(module, "KEPT", 0)
    again = importance(model, draws=4, iterations=20)
    assert max(shapes) == 10
    assert again.nats == pytest.approx(kept.nats)
    assert again.weights == pytest.approx(kept.weights)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"draws": 0}, "draws is 0"),
        ({"tolerance": 0.0}, "tolerance=0.0"),
        ({"budget": 1.0}, "cost and budget"),
        ({"cost": np.ones(3), "budget": 1.0}, r"cost has shape \(3,\)"),
        ({"cost": np.ones(2), "budget": 1.0}, "budget=1.0 must exceed"),
    ],
)
def test_bad_arguments_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        importance(Discrete(np.eye(2)), **settings)
