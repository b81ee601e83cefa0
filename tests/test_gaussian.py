import numpy as np
import pytest
from scipy.optimize import minimize

from empowerment import make
from empowerment.gaussian import gaussian_channel, gaussian_gains, water_filling


@pytest.mark.parametrize(("gain", "power"), [(4.0, 2.0), (0.5, 1.0), (100.0, 0.3), (1.0, 1e15)])
def test_one_direction_is_half_the_logarithm(gain, power):
    nats, spread = water_filling(np.array([gain]), power)
    assert nats == pytest.approx(0.5 * np.log(1 + gain * power), abs=1e-9)
    assert spread == pytest.approx(power)


def test_without_gain_nothing_is_sent():
    assert water_filling(np.zeros(3), 2.0)[0] == 0
    nats, spread = water_filling(np.zeros(2), 2.0, beta=0.5)
    assert spread == pytest.approx([1.0, 1.0])
    assert nats == pytest.approx(np.log(2 * np.pi * np.e))


def test_water_filling_by_hand():
    """Gains 4, 1 and 1/10 with power 2: the level is 1.625, and the third direction stays dry."""
    nats, spread = water_filling(np.array([4.0, 1.0, 0.1]), 2.0)
    assert spread == pytest.approx([1.375, 0.625, 0.0], abs=1e-9)
    assert nats == pytest.approx(0.5 * np.log(6.5 * 1.625), abs=1e-9)


@pytest.mark.parametrize("beta", [0.3, 0.7])
def test_below_one_entropy_is_worth_something(beta):
    gains, power = np.array([4.0, 1.0, 0.0]), 2.0

    def objective(logits):
        spread = power * np.exp(logits) / np.exp(logits).sum()
        entropy = 0.5 * np.log(2 * np.pi * np.e * spread)
        left = 0.5 * np.log(2 * np.pi * np.e * spread / (1 + gains * spread))
        return -(entropy / beta - left).sum()

    assert water_filling(gains, power, beta)[0] == pytest.approx(
        -minimize(objective, np.zeros(3)).fun, abs=1e-6
    )


def test_above_one_nothing_is_largest():
    with pytest.raises(ValueError, match="beta=2"):
        water_filling(np.ones(1), 1.0, 2.0)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_the_matrices_are_what_the_world_does(dimensions):
    world, rng, horizon = (
        make("point-mass", dimensions=dimensions, noise=0.2),
        np.random.default_rng(0),
        3,
    )
    n = 20_000
    force = rng.normal(size=(horizon, dimensions)).astype(np.float32)
    state = type(world.start)(*np.ones((2, n, dimensions), np.float32))
    for k in range(horizon):
        state = world.step(state, force[k], world.draw_outcome(state, force[k], rng))
    ends = world.observe(state)
    carried, pushed, covariance = world.matrices()
    matrix, spread = gaussian_channel(carried, pushed, covariance, horizon)
    expected = (
        np.linalg.matrix_power(carried, horizon) @ np.ones(2 * dimensions) + matrix @ force.ravel()
    )
    assert np.allclose(ends.mean(0), expected, atol=0.02)
    assert np.allclose(np.cov(ends.T), spread, atol=0.01)
    assert len(gaussian_gains(matrix, spread)) == horizon * dimensions


@pytest.mark.parametrize(
    "option", [{"noise": 0.0}, {"dimensions": 3}, {"power": -1.0}, {"damping": 2.0}]
)
def test_bad_options_of_the_point_mass(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        make("point-mass", **option)
