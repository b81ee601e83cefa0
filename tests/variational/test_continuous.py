"""Learning with continuous actions: the price of power by hand, and learned empowerment against
closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empowerment as emp
from empowerment.gaussian import linear_empowerment
from empowerment.variational import estimator
from empowerment.variational.collect import Batch
from empowerment.variational.config import configure
from empowerment.variational.learner import POWER_RATE, Learner, cost
from empowerment.variational.sequence import Gaussian

SMALL = {"batch": 512, "features": 32, "hidden": 64}


def learner(horizon=2, power=4.0):
    return Learner(
        configure(horizon, {"updates": 10, "features": 8, "hidden": 8}), Gaussian(2, power)
    )


def windows(scale):
    """Four windows of two actions of two numbers, each of size `scale`: |a|² is 4 scale² in all."""
    frames = jnp.arange(24.0).reshape(8, 3)
    return Batch(frames, jnp.arange(4), jnp.arange(4) + 4, scale * jnp.ones((4, 2, 2)))


def test_power_beyond_what_is_allowed_makes_it_dearer():
    """Power 4 for two numbers is a variance of 2 each. Its first price is 1 / (2 * 2)."""
    where = learner()
    state = where.init(jnp.ones((4, 3)) * jnp.arange(4.0)[:, None], key=jax.random.key(0))
    assert float(state.model.power_multiplier) == pytest.approx(0.25)
    for scale, direction in ((1.0, -1), (2.0, 1)):
        after, _ = where.update(state, windows(scale))
        excess = scale**2 / 2 - 1
        assert np.sign(excess) == direction
        assert float(after.model.power_multiplier) == pytest.approx(
            0.25 + POWER_RATE * excess / 2, rel=1e-4
        )


def test_what_power_costs_is_dual_offseted():
    """Price 1/4: a sequence of |a|² = 16 costs 4 nats, and the allowed power of two actions, 8, is
    2 nats."""
    state = learner().init(jnp.ones((4, 3)) * jnp.arange(4.0)[:, None], key=jax.random.key(0))
    assert np.allclose(cost(state.model, windows(2.0).actions), 4.0)
    assert float(state.model.dual_offset()) == pytest.approx(2.0)
    frames = jnp.ones((2, 3))
    psi = state.model.psi(state.model.representation(frames))
    assert np.allclose(state.model.empowerment(frames, 1.0), psi + 2.0)


def test_bound_keeps_to_the_allowed_power(monkeypatch):
    """At first q is N(0, 1); a source N(0, σ²) with σ > 1 is played as N(0, 1), so that H(h) falls
    by ln σ."""
    world, config = emp.make("point-mass"), configure(1, {"beta": 0.5, "features": 8, "hidden": 8})
    sample = jnp.ones((4, 2)) * jnp.arange(4.0)[:, None]
    model = Learner(config, Gaussian(1, 1.0)).init(sample, key=jax.random.key(0)).model
    wider = eqx.tree_at(lambda m: m.source.last_bias, model, jnp.array([[0.0, 0.5]]))
    sent, played = [], estimator.play
    monkeypatch.setattr(estimator, "play", lambda *args: (sent.append(args[2]), played(*args))[1])
    found = estimator.Estimator(wider, config, world).bound(samples=20_000)
    log_std = np.tanh(0.5)
    entropy = 0.5 * np.log(2 * np.pi * np.e)
    by_hand = (
        -0.5 * np.log(2 * np.pi) - 0.5 * np.exp(2 * log_std) + 2 * (entropy + log_std) - log_std
    )
    assert found.nats == pytest.approx(by_hand, abs=0.03)
    assert max(float((actions**2).mean()) for actions in sent) < 1 + 1e-5


def test_beta_above_one_is_refused():
    with pytest.raises(ValueError, match=r"beta=1\.5"):
        emp.train(emp.make("point-mass"), beta=1.5, updates=1)


def test_continuous_worlds_are_not_enumerated():
    with pytest.raises(ValueError, match="continuous actions"):
        emp.exact(emp.make("point-mass", power=None), 1)
    with pytest.raises(ValueError, match="continuous actions"):
        emp.exact(emp.make("predator-prey"), 1)
    world = emp.make("point-mass")
    assert emp.exact(world, 3).nats == pytest.approx(linear_empowerment(*world.matrices(), 3, 1.0))


def test_a_short_run_comes_near_resumes_and_loads(tmp_path):
    world = emp.make("point-mass", noise=0.5)
    learned = emp.train(world, 1, out=tmp_path / "run", updates=600, progress=False, **SMALL)
    truth = emp.exact(world, 1).nats
    assert np.abs(learned.landscape().nats / truth - 1).max() < 0.1
    loaded = emp.load(tmp_path / "run")
    assert np.array_equal(loaded.landscape().nats, learned.landscape().nats)
    assert learned.source(world.observe(world.start), 5).shape == (5, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("noise", "horizon", "beta", "dimensions"),
    [
        (0.1, 1, 1.0, 1),
        (0.3, 1, 1.0, 2),
        (0.3, 3, 1.0, 1),
        (0.1, 3, 1.0, 1),
        (0.3, 2, 1.0, 2),
        (0.3, 3, 0.5, 1),
        (0.3, 2, 0.8, 1),
    ],
)
def test_learned_empowerment_is_within_three_per_cent_of_the_closed_form(
    noise, horizon, beta, dimensions, seed
):
    world = emp.make("point-mass", noise=noise, dimensions=dimensions)
    truth = linear_empowerment(*world.matrices(), horizon, 1.0, beta)
    learned = emp.train(world, horizon, seed, beta=beta, progress=False).landscape().nats
    assert np.abs(learned / truth - 1).max() < 0.03
