"""Training with a model: gradients through dynamics, and importance weights amortised."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empowerment as emp
from empowerment.cli import main
from empowerment.model_based.learned import learn_world
from empowerment.model_based.linearised import linearised
from empowerment.model_based.reparameterised import Starts, imagine
from empowerment.variational import training
from empowerment.variational.checkpoint import flatten
from empowerment.variational.config import Config, make_config
from empowerment.variational.learner import Model
from empowerment.variational.sequence import Gaussian

MAP = "######\n#...a#\n#.#..#\n######\n"
TINY = {
    "updates": 20,
    "batch": 64,
    "hidden": 16,
    "features": 12,
    "layers": 2,
    "optimiser": "adam",
    "progress": False,
}
QUICK = {
    "updates": 400,
    "batch": 256,
    "hidden": 32,
    "features": 32,
    "layers": 2,
    "optimiser": "adam",
    "progress": False,
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "small.txt"
    path.write_text(MAP)
    return emp.make(path, slip=0.2)


def test_imagined_windows_carry_gradients():
    """In s' = s + a + noise the end moves with the source's mean, one for one at each step."""
    world = emp.make("point-mass", damping=0.0, stiffness=0.0)
    starts = Starts(jax.tree.map(lambda x: jnp.zeros((8, 1)), world.start), jax.random.key(0))
    model = Model(
        Config(horizon=1, hidden=16, features=12),
        Gaussian(1, 1.0),
        jnp.ones((4, 2)),
        key=jax.random.key(1),
    )

    def mean_end(shift):
        moved = jax.tree.map(lambda x: x, model)
        bias = moved.source.last_bias.at[:, 0].add(shift)
        object.__setattr__(moved.source, "last_bias", bias)
        batch = imagine(moved, world, starts)
        return batch.frames[batch.end].mean(0)

    assert np.asarray(jax.jacobian(mean_end)(0.0)) == pytest.approx([1.0, 1.0])


def test_linearised_is_exact_in_a_linear_world():
    world = emp.make("point-mass", noise=0.4)
    assert linearised(world, 3).nats == pytest.approx(emp.exact(world, 3).nats, rel=1e-5)
    turning = linearised(emp.make("pendulum"), 3).nats
    assert np.ptp(turning) > 0.001
    assert turning == pytest.approx(turning[::-1], rel=1e-4), "left and right are alike"
    with pytest.raises(ValueError, match="not smooth"):
        linearised(emp.make("two-rooms"), 2)


def test_reparameterised_learning_reaches_the_closed_form():
    world = emp.make("point-mass")
    est = emp.train(world, 2, method="reparameterised", **{**QUICK, "updates": 800})
    truth, bound = emp.exact(world, 2).nats, est.bound(samples=2000)
    assert bound.nats.mean() > 0.9 * truth[0]
    assert np.abs(est.landscape().nats - bound.nats).mean() < 0.1


def test_a_learned_model_foretells_steps():
    world = emp.make("point-mass", noise=0.3)
    model = learn_world(world, transitions=4096, hidden=16, updates=600)
    # Position gets the noise of the velocity and its own: the covariance has determinant 0.3⁴.
    entropy = np.log(2 * np.pi * np.e) + 0.5 * np.log(0.3**4)
    assert entropy - 0.05 < model.held_out.nats < entropy + 0.1
    assert model.held_out.rms < 0.6
    assert model.held_out.transitions == 3588
    end = model.step(jnp.zeros((1, 2)), jnp.ones((1, 1)), jnp.zeros((1, 2)))
    assert np.asarray(end)[0] == pytest.approx([1.0, 1.0], abs=0.1)
    pushed = model.step(jnp.zeros((1, 2)), jnp.zeros((1, 1)), jnp.eye(2)[:1])
    assert np.asarray(pushed)[0] == pytest.approx([0.3 * 2**0.5, 0.3 / 2**0.5], abs=0.1)


def test_importance_weights_are_learned(small):
    est = emp.train(small, 2, method="importance", sequences=200, **QUICK)
    fit = emp.compare(est.landscape(), emp.exact(small, 2))
    assert fit.rms < 0.1, str(fit)
    assert (est.bound(samples=500).nats <= emp.exact(small, 2).nats + 0.1).all()


def test_importance_weights_are_those_of_every_state():
    """Also of those that an agent has yet to come to, with the key in hand and the door open."""
    world = emp.make("key-door")
    run = training.prepare(world, make_config(world, 1, {"method": "importance", "sequences": 5}))
    assert len(run.collector.starts) > 2 * len(world.states().agent)


@pytest.mark.parametrize(("name", "settings"), [("point-mass", {"method": "learned-model"})])
def test_runs_with_a_model_are_kept_and_taken_up(name, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHUNK", 10)
    rough = partial(learn_world, transitions=512, hidden=8, updates=20)
    monkeypatch.setattr("empowerment.model_based.methods.learn_world", rough)
    world = emp.make(name)
    whole = emp.train(world, 2, out=tmp_path / "whole", **settings, **TINY)
    with monkeypatch.context() as patch:
        original = training.RunDirectory.save
        patch.setattr(
            training.RunDirectory,
            "save",
            lambda *a: (original(*a), (_ for _ in ()).throw(KeyboardInterrupt)),
        )
        with pytest.raises(KeyboardInterrupt):
            emp.train(world, 2, out=tmp_path / "cut", **settings, **TINY)
    resumed = emp.train(world, 2, out=tmp_path / "cut", resume=True, **settings, **TINY)
    for one, two in zip(
        flatten(whole.model).values(), flatten(resumed.model).values(), strict=True
    ):
        assert np.array_equal(one, two)
    assert emp.load(tmp_path / "cut").config.method == "learned-model"


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("two-rooms", {"method": "reparameterised"}, "needs continuous actions"),
        ("point-mass", {"method": "importance"}, "needs a table of outcomes"),
        ("two-rooms", {"method": "magic"}, "method='magic' is unknown"),
        (
            "point-mass",
            {"method": "reparameterised", "beta": 0.5},
            "beta=0.5 is for method='variational'",
        ),
    ],
)
def test_what_a_method_cannot_do_is_said(name, settings, words):
    with pytest.raises(ValueError, match=words):
        emp.train(emp.make(name), 2, **settings, **TINY)


def test_the_command_line_names_the_methods(capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["train", "point-mass", "--method", "magic", "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert "give 'variational' or 'importance' or 'reparameterised'" in capsys.readouterr().err
