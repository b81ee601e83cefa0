"""Learning empowerment with feedback."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empowerment as emp
from empowerment.cli import main
from empowerment.variational import training
from empowerment.variational.closed_loop import ClosedLoopModel
from empowerment.variational.collect import Batch
from empowerment.variational.config import configure, make_config
from empowerment.variational.sequence import Categorical
from empowerment.worlds.environment import WorldVectorEnv

TINY = {
    "updates": 6,
    "batch": 32,
    "hidden": 12,
    "features": 10,
    "layers": 2,
    "optimiser": "adam",
    "progress": False,
}
SMALL = {"updates": 500, "batch": 256, "hidden": 64, "features": 50, "progress": False}
ROOM = "#######\n#a..#.#\n#.#...#\n#######"


def model(horizon, discount=1.0, actions=3):
    config = configure(
        horizon,
        {"feedback": True, "discount": discount, "hidden": 8, "features": 6, "layers": 2},
    )
    made = ClosedLoopModel(config, Categorical(actions), jnp.ones((4, 5)), key=jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 2)

    def noisy(x, key):
        return jax.tree.map(lambda y: y + 0.3 * jax.random.normal(key, y.shape), x)

    return eqx_set(made, noisy(made.sources, keys[0]), noisy(made.increments, keys[1]))


def eqx_set(made, sources, increments):
    import equinox as eqx

    return eqx.tree_at(lambda m: (m.sources, m.increments), made, (sources, increments))


@pytest.mark.parametrize("discount", [1.0, 0.7])
def test_values_add_up_what_each_step_adds(discount):
    made, features = model(3, discount), jnp.arange(12.0).reshape(2, 6) / 10
    added, values = np.asarray(made.increments(features)), np.asarray(made.values(features))
    by_hand = added[:, 0]
    for k in (1, 2):
        by_hand = added[:, k] + discount * by_hand
    np.testing.assert_allclose(values[:, 2], by_hand, rtol=1e-5)
    endless = model(math.inf, 0.5)
    np.testing.assert_allclose(
        endless.values(features), 2 * endless.increments(features), rtol=1e-6
    )


def test_what_the_target_network_reads_is_worked_out_by_hand():
    made = model(2, 0.5)
    frames = jnp.arange(15.0).reshape(3, 5) / 7
    odds = jnp.array([[0.25, 0.75]])
    batch = Batch(
        frames,
        jnp.array([0]),
        jnp.array([1, 2]),
        jnp.array([[2]]),
        log_b=jnp.array([-np.log(3)]),
        ended=jnp.array([False, True]),
        odds=odds,
    )
    read = np.asarray(made.read_outcomes(batch).log_q)[0]
    features = made.representation(frames)
    sources, values = made.log_sources(features)[0], made.values(features)
    expected = np.zeros(2)
    for odd, end, over in ((0.25, 1, False), (0.75, 2, True)):
        logits = made.likelihood(features, jnp.array([0]), jnp.array([end]))[0]
        for k in range(2):
            log_q = jax.nn.log_softmax(sources[k] + logits)[2]
            later = 0.0 if over or k == 0 else 0.5 * values[end, k - 1]
            expected[k] += odd * (log_q + later)
    np.testing.assert_allclose(read, expected, rtol=1e-5)


def test_all_outcomes_of_the_one_action_are_listed():
    world = emp.make(ROOM, slip=0.2)
    run = training.prepare(world, make_config(world, 4, {"feedback": True, **without(TINY)}))
    carry = run.init(0)
    _, batch = run.collector.collect(
        carry.agents, training.LearnerPolicy(run.learner, carry.learner), key=jax.random.key(0)
    )
    assert batch.actions.shape == (32, 1)
    assert batch.odds.shape == (32, 5)
    np.testing.assert_allclose(batch.odds.sum(1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(batch.log_b, -np.log(5), rtol=1e-6)


def without(settings):
    return {name: value for name, value in settings.items() if name != "progress"}


@pytest.mark.parametrize(
    ("options", "horizon", "discount"),
    [({}, 3, 1.0), ({"slip": 0.2}, 6, 1.0), ({"slip": 0.2}, math.inf, 0.7)],
)
def test_what_is_learned_is_exact(options, horizon, discount):
    world = emp.make(ROOM, **options)
    est = emp.train(world, horizon, feedback=True, discount=discount, **SMALL)
    truth = emp.exact(world, horizon, feedback=True, discount=discount)
    fit = emp.compare(est.landscape(), truth)
    assert fit.r2 > 0.95
    assert not est.impossible(est.landscape().nats).any()
    bound = est.bound(samples=300)
    assert not bound.breaks(truth.upper).any()
    assert bound.nats.mean() > 0.9 * truth.nats.mean()
    frame = world.observe(world.start)
    assert est.source(frame, 7).shape == (7, 1)
    after = world.observe(world.step(world.start, np.int64(3), np.int64(0)))
    assert est.plan(frame, after).tolist() == [3], "the decoder knows which way it went"


def test_a_wrong_target_is_noticed(monkeypatch):
    """Without what follows, values stay those of one step."""
    monkeypatch.setattr(ClosedLoopModel, "values", lambda self, x: self.increments(x))
    world = emp.make(ROOM)
    est = emp.train(world, 3, feedback=True, **SMALL)
    truth = emp.exact(world, 3, feedback=True)
    monkeypatch.undo()
    assert emp.compare(est.landscape(), truth).r2 < 0.5


def test_a_killed_run_resumes_to_the_same_result_and_is_checked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "CHUNK", 3)
    given = {"feedback": True, "discount": 0.9, **TINY}
    world = emp.make(ROOM, slip=0.1)
    est = emp.train(world, math.inf, out=tmp_path / "run", **given)
    newest = tmp_path / "run" / "checkpoints" / "00000006.safetensors"
    whole = newest.read_bytes()
    newest.unlink()
    emp.train(world, math.inf, out=tmp_path / "run", resume=True, **given)
    assert newest.read_bytes() == whole
    loaded = emp.load(tmp_path / "run")
    assert loaded.config.horizon == math.inf
    assert np.array_equal(loaded.landscape().nats, est.landscape().nats)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["config"]["horizon"] == "inf"
    main(["check", str(tmp_path / "run"), "--samples", "20", "--json"])
    assert "bound_broken" in capsys.readouterr().out


def test_opaque_environments_too():
    env = emp.from_gymnasium(WorldVectorEnv(16, emp.make(ROOM), max_episode_steps=30))
    est = emp.train(env, 3, feedback=True, **TINY)
    assert len(est.landscape()) == len(emp.make(ROOM).states().agent)


def test_environments_whose_observations_do_not_repeat_too():
    import gymnasium

    env = emp.from_gymnasium(lambda: gymnasium.make("CartPole-v1"), copies=8)
    est = emp.train(env, 3, feedback=True, **TINY)
    assert np.isfinite(est.empowerment(np.zeros((2, 4), np.float32))).all()


@pytest.mark.parametrize(
    ("horizon", "settings", "words"),
    [
        (math.inf, {"feedback": True}, "horizon=inf must be a whole number"),
        (3, {"feedback": True, "beta": 0.5}, "beta=0.5 does not go with feedback"),
        (3, {"feedback": True, "preset": "paper"}, "preset='paper' does not go with feedback"),
        (3, {"feedback": True, "uniform": 0.5}, "uniform=0.5 does not apply with feedback"),
        (3, {"discount": 0.5}, "discount=0.5 is for feedback=True"),
    ],
)
def test_what_does_not_fit_is_refused(horizon, settings, words):
    with pytest.raises(ValueError, match=words):
        emp.train(emp.make(ROOM), horizon, **settings)


def test_vectors_are_refused():
    with pytest.raises(ValueError, match="is for listed actions"):
        emp.train(emp.make("point-mass"), 2, feedback=True)


@pytest.mark.slow
@pytest.mark.parametrize(("horizon", "discount"), [(5, 1.0), (20, 1.0), (math.inf, 0.95)])
def test_slippery_rooms_are_learned(horizon, discount):
    world = emp.make("two-rooms", slip=0.1)
    est = emp.train(world, horizon, feedback=True, discount=discount)
    truth = emp.exact(world, horizon, feedback=True, discount=discount)
    assert emp.compare(est.landscape(), truth).r2 >= 0.97
