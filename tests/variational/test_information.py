"""Information maximisation for general channels against known capacities."""

import runpy
from pathlib import Path

import jax
import numpy as np
import pytest

import empowerment as emp
from empowerment.variational.channels import Inputs, channel_collector
from empowerment.variational.sequence import Categorical

QUICK = {"updates": 300, "batch": 512, "samples": 2**15, "optimiser": "adam"}
KNOWN = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "channels.py"))
CASES, flipped, noisy, entropy = (KNOWN[name] for name in ("CASES", "flipped", "noisy", "entropy"))


def test_binary_symmetric_channel_in_numpy():
    found, truth = emp.maximise_information(flipped, 2, 32, **QUICK), np.log(2) - entropy(0.1)
    assert 0.98 * truth - 3 * found.error < found.nats < truth + 3 * found.error
    assert found.bits == pytest.approx(found.nats / np.log(2))
    assert found.source.probabilities == pytest.approx([0.5, 0.5], abs=0.05)
    assert found.decoder.mode(np.array([0, 1])).tolist() == [0, 1]
    assert np.exp(found.decoder.log_prob(np.array([0, 1]), np.array([0, 0]))) == pytest.approx(
        [0.9, 0.1], abs=0.03
    )
    assert set(found.source.sample(100)) == {0, 1}
    assert found.power is None


def test_gaussian_channel_keeps_to_its_power():
    found, truth = (
        emp.maximise_information(noisy, emp.Gaussian(1, power=4.0), 32, **QUICK),
        0.5 * np.log(5),
    )
    assert 0.95 * truth < found.nats < truth + 3 * found.error
    assert found.power <= 4.0
    sent = found.source.sample(20_000)
    assert sent.shape == (20_000, 1)
    assert (sent**2).mean() < 4.0 * 1.03
    grid = np.linspace(-20, 20, 4001)
    assert np.exp(found.source.log_prob(grid[:, None])).sum() * 0.01 == pytest.approx(1, abs=1e-3)


def test_what_was_scaled_down_is_measured_as_it_was_sent(monkeypatch):
    monkeypatch.setattr(emp.Gaussian, "gain", lambda self, draws: 0.5)
    found = emp.maximise_information(noisy, emp.Gaussian(1, power=4.0), 32, beta=0.5, **QUICK)
    sent = found.source.sample(2**15, seed=7)
    received = sent + np.random.default_rng(0).normal(size=sent.shape)
    values = found.decoder.log_prob(sent, received) - found.source.log_prob(sent) / 0.5
    assert values.mean() == pytest.approx(found.nats, abs=5 * found.error)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_channels_within_two_per_cent(name, seed):
    channel, source, truth = CASES[name]
    found = emp.maximise_information(channel, source, seed=seed)
    assert found.nats > 0.98 * truth()
    assert found.nats < truth() + 3 * found.error


@pytest.mark.slow
def test_entropy_constraint_and_sequences():
    matrix = np.array([[0.9, 0.1], [0.1, 0.9]])
    found = emp.maximise_information(flipped, 2, beta=0.5)
    assert found.nats == pytest.approx(emp.capacity(matrix, beta=0.5).nats, rel=0.02)
    twice = emp.maximise_information(flipped, 2, steps=2)
    assert twice.nats == pytest.approx(2 * (np.log(2) - entropy(0.1)), rel=0.03)


def test_few_samples_keep_to_the_power_as_many_do():
    few, many = (
        emp.maximise_information(
            noisy, emp.Gaussian(1, power=4.0), 8, samples=samples, updates=2, batch=32
        )
        for samples in (2, 2**17)
    )
    assert few.power == pytest.approx(many.power, rel=0.05), "measured on a whole block of inputs"
    assert few.source.sample(3).shape == (3, 1)
    assert few.decoder.mode(np.zeros((3, 1))).shape == (3, 1)
    with pytest.raises(ValueError, match="outputs have 2 numbers each; give 1"):
        few.decoder.mode(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="3 inputs and 1 outputs make no pairs"):
        few.decoder.log_prob(np.zeros((3, 1)), np.zeros((1, 1)))


def test_densities_are_not_rewarded_for_narrowing():
    with pytest.raises(ValueError, match=r"beta=2\.0 has no optimum in a channel of vectors"):
        emp.maximise_information(noisy, emp.Gaussian(1, power=4.0), 32, beta=2.0)


def test_inputs_come_and_go():
    vectors = Inputs(emp.Gaussian(2, 3.0), 4, gain=2.0)
    assert vectors.single == emp.Gaussian(1, 1.5)
    assert Inputs(emp.Gaussian(2, components=8), 4).single == emp.Gaussian(1, components=8)
    assert vectors.length == 8
    sequences = np.arange(16.0).reshape(2, 8, 1)
    sent = vectors.shaped(sequences)
    assert sent.shape == (2, 4, 2)
    assert sent[1, 0].tolist() == [16, 18]
    assert np.asarray(vectors.flat(sent)).tolist() == sequences.tolist()
    with pytest.raises(ValueError, match=r"give \(2, 4, 2\)"):
        vectors.flat(np.zeros((2, 8)))
    with pytest.raises(ValueError, match="symbols from 0 to 2"):
        Inputs(emp.Categorical(3), 1).flat(np.array([0, 3]))
    assert Inputs(emp.Categorical(3), 1).shaped(np.zeros((5, 1), int)).shape == (5,)


@pytest.mark.parametrize(
    ("channel", "settings", "words"),
    [
        (lambda x: x, {"source": 2}, "let it be channel"),
        (flipped, {"source": 0}, "source=0"),
        (flipped, {"source": 2, "steps": 0}, "steps=0"),
        (flipped, {"source": 2, "updats": 5}, "did you mean 'updates'"),
        (flipped, {"source": 2, "hidden": 8}, "set decoder"),
        (flipped, {"source": 2, "outcomes": 4}, "setting 'outcomes' means nothing for a channel"),
        (
            flipped,
            {"source": 2, "steps": 5000},
            "steps=5000 must be a whole number from 1 to 4,096",
        ),
        (
            flipped,
            {"source": emp.Gaussian(100, 1.0), "steps": 50},
            "an input has 5,000 numbers; give fewer steps",
        ),
        (
            flipped,
            {"source": 2, "decoder": 20000},
            "decoder=20000 must be a whole number from 1 to 16,384",
        ),
        (flipped, {"source": 2, "seed": -1}, "seed=-1 must be a whole number"),
        (lambda x, rng: x[:3], {"source": 2}, "give one each"),
        (lambda x, rng: x * np.nan, {"source": 2}, "NaN or infinity"),
    ],
)
def test_bad_arguments_are_named(channel, settings, words):
    with pytest.raises(ValueError, match=words):
        emp.maximise_information(channel, **settings)


def test_outputs_are_seen_whatever_their_units():
    def sent(offset, unit):
        def channel(x, rng):
            return offset + unit * (x + rng.normal(size=x.shape))

        where = channel_collector(channel, Inputs(Categorical(3), 1), 8, 0)
        return np.asarray(where.frames(where.sample(jax.random.key(1))))

    plain = sent(0.0, 1.0)
    assert np.allclose(sent(1e8, 1.0), plain, atol=1e-3)
    assert np.allclose(sent(0.0, 1e-9), plain, atol=1e-3)
    assert np.ptp(plain[:, 0]) > 3


def test_symbols_are_whole_numbers():
    for wrong in (0.5, float("nan"), 3, -1):
        with pytest.raises(ValueError, match="symbols from 0 to 2"):
            Inputs(Categorical(3), 1).flat([wrong])
