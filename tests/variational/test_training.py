"""Learned against exact, and runs that survive."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empowerment as emp
from empowerment.behaviour import learned_value
from empowerment.exact import has_exact
from empowerment.variational import training
from empowerment.variational.acting import StratifiedOutcomes
from empowerment.variational.checkpoint import RunDirectory, flatten
from empowerment.variational.collect import (
    MEMORY,
    PRIORITISED,
    VISITED_SHARE,
    Batch,
    beginnings,
    rare,
    stratified,
)
from empowerment.variational.config import STOCHASTIC, Config, configure, defaults_for, make_config
from empowerment.variational.estimator import Estimator
from empowerment.variational.learner import Learner, LearnerPolicy, exponential_psi
from empowerment.variational.objective import decoder_loss
from empowerment.variational.sequence import Categorical
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.table import TableWorld
from empowerment.worlds.world import World, concatenate, identify, leaves, take

SMALL = "########\n#..#...#\n#a.#.#.#\n#......#\n#..#...#\n#.##...#\n#......#\n########\n"
SIZES = {"updates": 20, "batch": 64, "hidden": 16, "features": 12, "layers": 2}
TINY = {**SIZES, "progress": False}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "small.txt"
    path.write_text(SMALL)
    return emp.make(path)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(training, "CHUNK", 10)


def r2(values, truth):
    return 1 - ((values - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()


def test_a_world_that_ends_everywhere_is_refused():
    table = TableWorld(
        np.zeros((1, 2, 1), int), np.ones((1, 2, 1)), "bandit", terminals=np.ones(1, bool)
    )
    with pytest.raises(ValueError, match="'bandit' ends in every state that it has"):
        emp.train(table, 1, **TINY)


def test_observations_are_scaled_by_many_even_where_few_act():
    world = emp.make("pendulum")
    few = training._collector(world, configure(1, {"batch": 4}))
    assert few.sample_frames(jax.random.key(0)).shape[0] == 256


def test_worlds_with_other_actions_are_refused(small):
    est = emp.train(small, 1, **TINY)
    with pytest.raises(ValueError, match="has other actions than this was trained with"):
        est.bound(GridWorld(Map.parse(SMALL, "bricks"), bricks=True))


def test_learned_empowerment_is_exact_empowerment(small, monkeypatch):
    """Each part is held to its own line, so that it is known which one stopped learning."""
    monkeypatch.setattr(training, "CHUNK", 100)
    run = training.prepare(small, make_config(small, 3, {}))
    first = flatten(run.init(0).learner.model.representation)
    est = emp.train(small, 3, seed=0, updates=1000, batch=512, hidden=64, progress=False)
    exact, learned = emp.exact(small, 3), est.landscape()
    bound, log_z = est.bound(samples=500), est.log_z()
    assert r2(log_z, exact.nats) > 0.99, "decoder"
    assert np.abs(bound.nats - log_z).mean() < 0.02, "source"
    assert np.abs(learned.nats - bound.nats).mean() < 0.03, "psi"
    last = flatten(est.model.representation)
    moved = [
        name
        for name in last
        if not np.array_equal(last[name], first.get(name)) and "centre" not in name
    ]
    assert any("kernels" in name for name in moved), "representation"
    fit = emp.compare(learned, exact)
    assert fit.r2 > 0.97, str(fit)
    assert fit.pearson > 0.985, str(fit)
    assert (bound.nats <= exact.nats + 5 * bound.error + 1e-6).all(), (
        "a lower bound cannot beat the truth"
    )
    goal = small.step(small.step(small.start, np.int32(1), np.int32(0)), np.int32(3), np.int32(0))
    plan = est.plan(small.observe(small.start), small.observe(goal))
    state = small.start
    for action in plan:
        state = small.step(state, action, np.int32(0))
    assert state.agent == goal.agent, "the decoder plans"


def test_a_run_interrupted_anywhere_ends_the_same(small, tmp_path, monkeypatch):
    whole = emp.train(small, 2, seed=3, out=tmp_path / "whole", **TINY)
    for stop in ("log", "save"):
        directory = tmp_path / stop
        original, calls = getattr(RunDirectory, stop), []

        def interrupted(self, *args, original=original, calls=calls):
            calls.append(args)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return original(self, *args)

        monkeypatch.setattr(RunDirectory, stop, interrupted)
        with pytest.raises(KeyboardInterrupt):
            emp.train(small, 2, seed=3, out=directory, **TINY)
        monkeypatch.setattr(RunDirectory, stop, original)
        resumed = emp.train(small, 2, seed=3, out=directory, resume=True, **TINY)
        for name, array in flatten(whole.model).items():
            assert np.array_equal(array, flatten(resumed.model)[name]), name
        assert (directory / "metrics.jsonl").read_text() == (
            tmp_path / "whole" / "metrics.jsonl"
        ).read_text()


def test_load_gives_what_train_gave(small, tmp_path):
    trained = emp.train(small, 2, out=tmp_path / "run", **TINY)
    loaded = emp.load(tmp_path / "run")
    frames = np.asarray(small.observe(small.states()))
    assert np.array_equal(trained.empowerment(frames), loaded.empowerment(frames))
    assert loaded.config == trained.config
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert [line["updates"] for line in lines] == [10, 20]


@pytest.mark.parametrize("slip", [0.0, 0.1])
def test_one_compilation_for_each_chunk_shape(slip, monkeypatch):
    shapes, original = [], training._updates
    monkeypatch.setattr(
        training, "_updates", lambda run, carry, n: (shapes.append(n), original(run, carry, n))[1]
    )
    emp.train(GridWorld(Map.parse(SMALL, "small"), slip=slip), 2, **{**TINY, "updates": 45})
    assert shapes == [10, 5]


def test_the_same_seed_gives_the_same_numbers(small):
    frames = np.asarray(small.observe(small.states()))
    one, two, other = (emp.train(small, 2, seed=s, **TINY).empowerment(frames) for s in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("name", ["box-movable", "lava-corridor", "key-door", "tree"])
def test_every_kind_of_world_can_be_learned(name):
    est = emp.train(emp.make(name), 2, **TINY)
    assert np.isfinite(est.landscape().nats).all()
    assert np.isfinite(est.bound(samples=20).nats).all()


def test_uniform_share_falls_from_one_to_zero():
    def shares(uniform):
        learner = Learner(Config(updates=100, uniform=uniform), Categorical(5))
        return [float(learner.uniform_share(jax.numpy.asarray(t))) for t in (0, 20, 40, 80, 99)]

    assert shares(0.8) == pytest.approx([1, 0.75**2, 0.5**2, 0, 0])
    assert shares(0.0) == [0] * 5, "none at all"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"horizon": 0}, "horizon=0"),
        ({"updates": -1}, "updates=-1"),
        ({"layers": 1}, "layers=1 must be a whole number from 2 to 64"),
        ({"beta": 0.0}, "beta=0"),
        ({"uniform": 1.5}, "uniform=1.5"),
        ({"optimiser": "sgd"}, "optimiser='sgd'"),
        ({"hiden": 5}, "did you mean 'hidden'"),
        ({"ema": 1.0}, r"ema=1.0 must be at least 0 and below 1"),
        ({"preset": "papr"}, r"preset='papr' is unknown \(did you mean 'paper'\?\)"),
        ({"sequences": 100}, r"sequences=100 is for method='importance'"),
        (
            {"method": "importance", "uniform": 0.1},
            "uniform=0.1 does not apply to method='importance'",
        ),
        ({"resume": True}, "give out= as well"),
    ],
)
def test_bad_settings_are_named(small, settings, words):
    with pytest.raises(ValueError, match=words):
        emp.train(small, **{"horizon": 2, "progress": False, **settings})


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("two-rooms", {"outcomes": 2}, "outcomes=2 is for stochastic worlds"),
        ("predator-prey", {"outcomes": 2}, "outcomes=2 is for stochastic worlds"),
        (
            "two-rooms",
            {"method": "importance", "outcomes": 2},
            "outcomes=2 does not apply to method='importance'",
        ),
    ],
)
def test_settings_that_would_be_ignored_are_refused(name, settings, words):
    with pytest.raises(ValueError, match=words):
        emp.train(emp.make(name), 2, progress=False, **settings)


def test_settings_of_a_run_that_is_only_to_begin_are_refused_too(small, tmp_path):
    with pytest.raises(ValueError, match="outcomes=3 is for stochastic worlds"):
        emp.train(small, 2, out=tmp_path / "run", resume=True, outcomes=3, **TINY)


def test_whole_numbers_of_any_kind(small, tmp_path):
    sizes = {name: np.int64(value) for name, value in SIZES.items()}
    est = emp.train(small, np.int64(2), np.int64(3), out=tmp_path / "run", progress=False, **sizes)
    assert est.config == emp.train(small, 2, 3, out=tmp_path / "run", resume=True, **TINY).config
    assert est.bound(states=small.start, samples=np.int64(5)).nats.shape == (1,)
    emp.exact(small, np.int64(2)).save(tmp_path / "land")
    assert emp.Landscape.load(tmp_path / "land").horizon == 2
    with pytest.raises(ValueError, match=r"samples=-1 must be a whole number"):
        est.source(small.observe(small.start), samples=-1)
    with pytest.raises(ValueError, match="states is a ndarray"):
        est.landscape(states=np.zeros((2, 2)))


def test_where_an_episode_ends_nothing_is_left_to_choose():
    world = GridWorld(Map.parse("#######\n#a...l#\n#######\n", "flood"))
    est = emp.train(world, 2, **{**TINY, "updates": 1})
    est = Estimator(
        eqx.tree_at(lambda m: m.psi.network.biases[-1], est.model, jnp.ones(1)), est.config, world
    )
    dead = jax.tree.map(lambda x: np.zeros((1, *np.shape(x)), x.dtype), world.start)
    states = concatenate([take(world.states(), slice(0, 3)), dead])
    assert est.empowerment(np.asarray(world.observe(dead))) != 0
    for nats in (est.landscape(states=states).nats, learned_value(world, est)(states)):
        assert (nats[:3] != 0).all()
        assert nats[3] == emp.exact(world, 2, dead).nats[0] == 0


def test_averaged_weights_forget_the_first_ones(small):
    plain, averaged = (flatten(emp.train(small, 2, ema=a, **TINY).model) for a in (0.0, 0.999))
    for name in ("psi/network/layers/2", "decoder/last"):  # zero at first
        assert np.linalg.norm(averaged[name]) > 0.5 * np.linalg.norm(plain[name])


class Noisy(World):
    """A place on a line that noise moves about: actions can be listed, outcomes cannot."""

    name, actions, outcomes, noise, start = "noisy", ("left", "right"), None, 1, np.float32(0)

    def step(self, state, action, outcome):
        return state + 2.0 * action - 1 + 0.1 * outcome[..., 0]

    def observe(self, state):
        return state[..., None]

    def states(self):
        return np.zeros(1, np.float32)


def test_listed_actions_whose_outcomes_cannot_be_listed():
    assert np.isfinite(emp.train(Noisy(), 1, **TINY).landscape().nats).all()
    assert not has_exact(Noisy())
    with pytest.raises(
        ValueError, match="outcomes that cannot be listed or enumerated; learn on it"
    ):
        emp.exact(Noisy(), 1)


def test_runs_are_not_overwritten_and_must_fit(small, tmp_path):
    emp.train(small, 2, out=tmp_path, **TINY)
    with pytest.raises(ValueError, match="holds a run already"):
        emp.train(small, 2, out=tmp_path, **TINY)
    with pytest.raises(ValueError, match="another seed"):
        emp.train(small, 2, seed=9, out=tmp_path, resume=True, **TINY)
    with pytest.raises(ValueError, match=r"another config \(updates=20, batch=64\); give the same"):
        emp.train(small, 2, out=tmp_path, resume=True, **{**TINY, "updates": 30, "batch": 32})
    with pytest.raises(ValueError, match="is not a run"):
        emp.load(tmp_path / "nowhere")
    with (
        RunDirectory(tmp_path).locked(),
        pytest.raises(ValueError, match="being written by process"),
    ):
        emp.train(small, 2, out=tmp_path, resume=True, **TINY)


def test_a_run_in_a_table_goes_on_in_no_other(tmp_path):
    table = np.array([[0, 1], [1, 2], [2, 2]])
    emp.train(emp.from_transitions(table), 2, out=tmp_path / "run", **TINY)
    resumed = {"out": tmp_path / "run", "resume": True, **TINY}
    emp.train(emp.from_transitions(table), 2, **resumed)
    for other in (emp.from_transitions(table[:, ::-1]), emp.from_transitions(table, "other")):
        with pytest.raises(ValueError, match="another world"):
            emp.train(other, 2, **resumed)


def test_checkpoints_too_large_to_be_read_are_not_written(small, tmp_path, monkeypatch):
    monkeypatch.setattr("empowerment.variational.checkpoint.LARGEST", 10_000)
    with pytest.raises(ValueError, match="give smaller networks"):
        emp.train(small, 2, out=tmp_path, **TINY)
    assert not RunDirectory(tmp_path).checkpoints()


def test_observations_of_the_wrong_shape_are_refused(small):
    est = emp.train(small, 2, **TINY)
    with pytest.raises(ValueError, match="shape"):
        est.empowerment(np.zeros((2, 3, 3, 3), np.uint8))
    with pytest.raises(ValueError, match="NaN"):
        est.empowerment(np.full((1, 8, 8, 3), np.nan))


def test_observations_of_another_type_or_range_are_refused(small, tmp_path):
    est = emp.train(small, 2, out=tmp_path / "run", **TINY)
    frames = small.observe(small.states())
    for estimator in (est, emp.load(tmp_path / "run")):
        with pytest.raises(
            ValueError, match=r"type float64.*uint8 pixels.*\(255 \* x\)\.round\(\)\.astype"
        ):
            estimator.empowerment(frames / 255.0)
        with pytest.raises(ValueError, match=r"or x\.astype"):
            estimator.source(frames[0].astype(np.int64))
        with pytest.raises(ValueError, match="uint8 pixels"):
            estimator.plan(frames[0] / 255.0, frames[1] / 255.0)
        with pytest.raises(ValueError, match="uint8 pixels"):
            estimator.landscape(Dimmed(small))
        with pytest.raises(ValueError, match="uint8 pixels"):
            estimator.bound(Dimmed(small), samples=2)


class Dimmed(World):
    """A world whose pictures are scaled to 0..1."""

    def __init__(self, world):
        self._world, self.name, self.actions, self.outcomes = (
            world,
            "dimmed",
            world.actions,
            world.outcomes,
        )
        self.start = world.start

    def step(self, state, action, outcome):
        return self._world.step(state, action, outcome)

    def observe(self, state):
        return np.asarray(self._world.observe(state)) / np.float32(255)

    def states(self):
        return self._world.states()


def test_vectors_in_other_units_are_refused():
    world = emp.make("pendulum")
    est = emp.train(world, 1, **TINY)
    seen = np.asarray(world.observe(world.states()))
    assert np.isfinite(est.empowerment(3 * seen)).all()
    with pytest.raises(ValueError, match="pass them in the units of training"):
        est.empowerment(1000 * seen)


def test_a_small_error_of_learning_is_not_impossible(small):
    est = emp.train(small, 2, **TINY)
    highest = 2 * np.log(5)
    found = est.impossible(np.array([-0.0003, highest + 0.0003, -0.5, highest + 0.5, np.nan]))
    assert found.tolist() == [False, False, True, True, True]


def test_defaults_follow_from_what_the_world_says_of_itself(small):
    slippery = emp.make("two-rooms", slip=0.2)
    assert (
        defaults_for(small)
        == defaults_for(emp.make("pendulum"))
        == defaults_for(slippery, {"method": "importance"})
        == {}
    )
    assert defaults_for(slippery) == STOCHASTIC
    assert make_config(slippery, 1, {"outcomes": 4}).outcomes == 4


def test_the_paper_is_a_preset(small):
    est = emp.train(small, 2, preset="paper", **TINY)
    assert est.config.as_printed
    assert (est.config.optimiser, est.config.ema, est.config.uniform) == ("adagrad", 0.0, 0.0)
    assert est.model.decoder_prior is None
    assert not est.model.source.layer_norm
    assert est.model.source.prefix == "previous"


def slippery_run(**settings):
    world = GridWorld(Map.parse(SMALL, "slippery"), slip=0.3)
    return training.prepare(world, make_config(world, 3, {**SIZES, **settings}))


def trained(run, updates):
    advance, carry = jax.jit(run.advance), run.init(0)
    for _ in range(updates):
        carry, _ = advance(carry)
    return carry.learner.model


def collected(run, seed=0):
    carry = run.init(seed)
    policy = LearnerPolicy(run.learner, carry.learner)
    return run.collector.collect(carry.agents, policy, key=jax.random.key(seed))


def test_sequences_are_played_several_times_where_chance_decides(small):
    assert training.prepare(small, make_config(small, 3, SIZES)).collector.outcomes == 1, (
        "nothing to average"
    )
    _, batch = collected(slippery_run())
    ends = batch.end.reshape(64, 16)
    assert len(batch.start) == len(batch.actions) == 64
    assert (ends != ends[:, :1]).any(axis=1).mean() > 0.3, "chance is drawn for each"
    assert collected(slippery_run(outcomes=1))[1].end.shape == (64,)


def test_outcomes_of_a_large_world_are_seen_beside_their_starts():
    world = emp.make("box-movable", slip=0.2)
    run = training.prepare(world, make_config(world, 2, {**SIZES, "outcomes": 3}))
    state, batch = collected(run)
    frames, ends = np.asarray(batch.frames.frames), np.asarray(batch.end).reshape(64, 3)
    assert len(frames) == 64 * 4
    assert int(batch.frames.count[0]) > max(int(batch.start.max()), int(ends.max())), (
        "all are encoded"
    )
    archive = stack_states(run.collector.starts, state.visited)
    starts = stack_states(state.walkers, take(archive, np.asarray(state.drawn)))
    assert np.array_equal(frames[np.asarray(batch.start)], np.asarray(world.observe(starts)))
    assert (frames[ends[:, 0]] != frames[ends[:, 1]]).any(), "chance is drawn for each"


def stack_states(*states):
    return jax.tree.map(lambda *x: np.concatenate(list(map(np.asarray, x))), *states)


def test_starts_are_drawn_where_errors_are_large(small):
    """In proportion to the running mean of the squared error, except for a share that is drawn
    evenly."""
    where = training._collector(small, configure(2, {"batch": 256}))
    state = where.init(jax.random.key(0))
    assert np.allclose(where.priorities(state), where.weights), "at first all are alike"
    state = state._replace(drawn=jnp.zeros(256, jnp.int32).at[128:].set(1))
    state = where.feedback(state, jnp.full(256, 3.0).at[128:].set(1.0))
    kept = MEMORY + (1 - MEMORY) * np.array([9.0, 1.0])
    assert np.allclose(state.errors, [*kept, *np.ones(len(state.errors) - 2)])
    share = where.priorities(state)
    even = np.asarray(where.weights)
    assert np.allclose(
        share, (1 - PRIORITISED) * even + PRIORITISED * even * state.errors / (even @ state.errors)
    )
    policy = LearnerPolicy(*prepared(small))
    drawn = np.concatenate(
        [where.collect(state, policy, key=jax.random.key(i))[0].drawn for i in range(20)]
    )
    assert np.bincount(drawn, minlength=len(share)) / len(drawn) == pytest.approx(
        np.asarray(share), abs=0.002
    )


def prepared(world):
    run = training.prepare(world, make_config(world, 2, SIZES))
    return run.learner, run.init(0).learner


def test_stratified_samples_differ_from_their_share_by_less_than_one():
    weights = jnp.asarray([0.5, 0.0, 0.25, 0.2, 0.05])
    for seed in range(5):
        counts = np.bincount(stratified(weights, 100, key=jax.random.key(seed)), minlength=5)
        assert (np.abs(counts - 100 * np.asarray(weights)) < 1 + 1e-3).all(), counts
    assert stratified(weights, 0, key=jax.random.key(0)).shape == (0,)


def test_a_world_that_changes_for_good_starts_as_often_where_it_does_as_after():
    where = training._collector(emp.make("key-door"), configure(2, {}))
    own = np.isclose(where.weights, where.weights.max())
    assert 0 < own.sum() < len(own)
    assert float(where.weights[own].sum()) > 0.5
    assert float(where.weights.sum()) == pytest.approx(1)


def test_what_several_ends_say_is_averaged():
    run = slippery_run()
    _, batch = collected(run)
    model = trained(run, 5)
    log_q, log_h, psi = model.terms(batch)
    each = [model.terms(batch._replace(end=batch.end[i::16])) for i in range(16)]
    assert np.allclose(log_q, np.mean([one[0] for one in each], axis=0), atol=1e-5)
    assert np.ptp([one[0] for one in each], axis=0).max() > 1e-3
    assert all(np.allclose(log_h, one[1]) and np.allclose(psi, one[2]) for one in each)


def test_the_decoder_is_fitted_to_the_first_of_several_ends():
    run = slippery_run()
    _, batch = collected(run)
    model = trained(run, 5)
    first = batch._replace(end=batch.end[::16])
    all_ends, one_end = (
        jax.grad(lambda m, b=b: decoder_loss(m.terms(b)[0]))(model).decoder for b in (batch, first)
    )
    for a, b in zip(jax.tree.leaves(all_ends), jax.tree.leaves(one_end), strict=True):
        assert np.allclose(a, b, atol=1e-6)


def test_the_source_is_fitted_to_what_the_averaged_model_reads():
    run = slippery_run()
    _, batch = collected(run)
    early, model = trained(run, 10), trained(run, 15)
    assert np.allclose(model.read_outcomes(batch).log_q, model.terms(batch)[0], atol=1e-5), (
        "the mean over the ends"
    )
    told = early.read_outcomes(batch)
    assert not np.allclose(told.log_q, model.terms(batch)[0], atol=1e-3)
    log_q, log_h, psi = model.terms(told)
    info = exponential_psi(model, told, run.learner.config)[1][0]
    assert np.allclose(info.errors, np.abs(told.log_q - log_h - psi), atol=1e-5)
    assert float(info.decoder_loss) == pytest.approx(float(decoder_loss(log_q)), abs=1e-5), (
        "by its own reading"
    )
    _, in_an_update, _ = run.learner._gradient(model, early, batch)
    assert np.allclose(in_an_update.errors, info.errors, atol=1e-5), (
        "by the average, not by the model"
    )


def test_chance_is_spread_over_the_ends_of_a_sequence_and_each_is_a_fair_draw():
    odds = jnp.tile(jnp.array([0.7, 0.0, 0.2, 0.1]), (8 * 4000, 1))
    outcomes, drawn = StratifiedOutcomes.spread(8 * 4000, 8, key=jax.random.key(0)), []
    for k in range(12):  # longer than the first numbers' precision lasts
        outcome, outcomes = outcomes.draw(odds, key=jax.random.key(k + 1))
        drawn.append(np.asarray(outcome))
    drawn = np.array(drawn)
    shares = np.array([(drawn == i).mean(1) for i in range(4)])
    assert np.allclose(shares, np.array([[0.7], [0.0], [0.2], [0.1]]), atol=0.015), "at every step"
    pairs = np.corrcoef(drawn == 0)
    assert np.abs(pairs - np.eye(12)).max() < 0.03, "steps are independent of each other"
    assert len(np.unique(drawn[:, ::8].T, axis=0)) > 2000, (
        "and no two rows of different sequences go together"
    )
    never = (drawn[:3] == 0).all(0).reshape(-1, 8).mean(1)
    assert never.std() < 0.6 * np.sqrt(0.7**3 * (1 - 0.7**3) / 8), (
        "courses of events vary less than independent ones"
    )


def test_bayes_rule_adds_the_sources_logits_once_sequences_come_from_it():
    run = slippery_run()
    assert float(run.init(0).learner.model.decoder_prior) == 0, "uniform sequences say nothing"
    model = trained(run, 15)
    assert float(model.decoder_prior) == 1
    every = jnp.asarray([[i // 25, i // 5 % 5, i % 5] for i in range(125)])
    frames = run.collector.frames
    here, there = jnp.full(125, 3), jnp.full(125, 5)
    log_q, log_h, _ = model.terms(Batch(frames, here, there, every))
    assert np.exp(log_q).sum() == pytest.approx(1, abs=1e-4)
    mute = eqx.tree_at(
        lambda m: (m.decoder.last, m.decoder.last_bias), model, replace_fn=jnp.zeros_like
    )
    assert np.allclose(mute.terms(Batch(frames, here, there, every))[0], log_h, atol=1e-5), (
        "the prior is the source"
    )
    assert np.ptp(log_h) > 0.01
    fitted = jax.grad(lambda m: decoder_loss(m.terms(Batch(frames, here, there, every))[0]))(model)
    assert all((x == 0).all() for x in jax.tree.leaves((fitted.source, fitted.decoder_prior))), (
        "the prior is held fixed"
    )
    # The likeliest action at each step, by all sequences that go on from there.
    read = np.asarray(model.read(model.representation(frames), here[:1], there[:1])[0])
    table = np.exp(np.asarray(log_q)).reshape(5, 5, 5)
    assert read[0] == table.sum((1, 2)).argmax()
    assert read[1] == table[read[0]].sum(1).argmax()
    assert read[2] == table[read[0], read[1]].argmax()


def test_the_prior_is_what_agents_do_while_some_actions_are_uniform():
    run = slippery_run(uniform=0.8)
    model = trained(run, 10)
    share = 1 - (6 / 16) ** 2  # after 10 of the 16 updates in which some are
    assert float(model.decoder_prior) == pytest.approx(share)
    every = jnp.asarray([[i // 25, i // 5 % 5, i % 5] for i in range(125)])
    # A source that is sure of its first action makes uniform ones easy to see.
    sure = eqx.tree_at(
        lambda m: m.source.last_bias, model, replace_fn=lambda x: x.at[0, 2].add(50.0)
    )
    mute = eqx.tree_at(
        lambda m: (m.decoder.last, m.decoder.last_bias), sure, replace_fn=jnp.zeros_like
    )
    frames, here = run.collector.frames, jnp.full(125, 3)
    expected = np.exp(mute.terms(Batch(frames, here, here, every))[0]).reshape(5, 25)
    assert expected.sum() == pytest.approx(1, abs=1e-4)
    assert expected.sum(1) == pytest.approx((1 - share) / 5 + share * np.eye(5)[2], abs=1e-4)
    state = run.init(0).learner._replace(model=sure, updates=jnp.asarray(10))
    drawn, log_b = map(
        np.asarray, run.learner.choose(state, frames, jnp.full(40_000, 3), key=jax.random.key(1))
    )
    number = drawn @ np.array([25, 5, 1])
    assert np.allclose(np.exp(log_b), expected.reshape(-1)[number], atol=1e-5), (
        "each comes with its probability"
    )
    seen = np.bincount(number, minlength=125).reshape(5, 25) / 40_000
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected / 40_000) + 1e-4).all()


def test_a_noisy_run_goes_on_where_it_stopped(tmp_path):
    world = GridWorld(Map.parse(SMALL, "slippery"), slip=0.3)
    whole = emp.train(world, 2, out=tmp_path / "run", ema=0.9, **TINY)
    (tmp_path / "run" / "checkpoints" / "00000020.safetensors").unlink()
    again = emp.train(world, 2, out=tmp_path / "run", resume=True, ema=0.9, **TINY)
    for est in (again, emp.load(tmp_path / "run")):
        assert float(est.model.decoder_prior) == 1, "not averaged with the warm-up's"
        assert all(map(np.array_equal, *map(jax.tree.leaves, (est.model, whole.model))))


def test_a_noisy_world_is_learned(monkeypatch):
    """With the settings that are usual in worlds with slip, which want more updates than others."""
    monkeypatch.setattr(training, "CHUNK", 100)
    world = GridWorld(
        Map.parse("########\n#a..#..#\n#...#..#\n#......#\n########\n", "noisy"), slip=0.1
    )
    est = emp.train(world, 2, updates=1000, batch=256, hidden=64, progress=False)
    exact, bound = emp.exact(world, 2), est.bound(samples=500)
    assert emp.compare(est.landscape(), exact).r2 > 0.9
    assert (bound.nats <= exact.nats + 5 * bound.error + 1e-6).all()


def test_rates_rise_at_first_and_fall_to_zero():
    def rates(**settings):
        schedule = Learner(configure(2, {"updates": 100, **settings}), Categorical(5))._schedule(
            0.5
        )
        return np.array([float(schedule(n)) for n in range(101)])

    fallen = 0.5 * (1 - np.arange(101) / 100)
    assert np.allclose(rates(preset="paper"), fallen)
    assert np.allclose(rates()[:10], fallen[:10] * np.arange(1, 11) / 10)
    assert np.allclose(rates()[10:], fallen[10:])


def test_what_is_rare_is_picked_except_a_single_case():
    changes = np.repeat([0, 6, 9, 12, 15], [900, 8998, 60, 40, 2])
    share = np.bincount(changes, weights=rare(changes))
    assert share[[0, 6]].sum() == 0  # 9 % and 90 % of the windows
    np.testing.assert_allclose(share[[9, 12]], 1 / 2.2)
    np.testing.assert_allclose(share[15], 0.2 / 2.2)  # two windows, where ten would count in full
    np.testing.assert_allclose(
        rare(np.repeat([2, 3], [30, 10])), np.repeat([1 / 60, 1 / 20], [30, 10])
    )


def test_something_is_about_to_happen_where_many_agents_start():
    """The box is near to few cells, but to many of the eventful starts."""
    world = emp.make("box-movable")
    starts = beginnings(world, 5)
    side, size = world.map.cells.shape[1], len(leaves(starts)[0]) // 3

    def near(part):
        states = take(starts, slice(part * size, (part + 1) * size))
        box, agent = np.asarray(states.boxes).argmax(-1), np.asarray(states.agent)
        return np.mean(abs(box // side - agent // side) + abs(box % side - agent % side) <= 2)

    assert near(1) > 4 * near(0)
    assert near(1) > 2 * near(2)


@pytest.mark.parametrize("horizon", [3, 41])
def test_starts_where_all_soon_die_and_for_long_windows(horizon):
    """Lava that leaves no one alive within the random play; and windows longer than that."""
    room = "\n".join(
        ["#" * 18, *["#" + "." * 16 + "#"] * 15, "#a" + "." * 6 + "l" + "." * 8 + "#", "#" * 18]
    )
    world = GridWorld(Map.parse(room, "flood"))
    starts = beginnings(world, horizon)
    assert not np.asarray(world.terminal(starts)).any()


def test_some_agents_walk_to_where_it_is_better(monkeypatch):
    """With a ψ that likes the top, walkers that neither explore nor restart get there and stay."""
    monkeypatch.setattr("empowerment.variational.collect.EPSILON", 0.0)
    monkeypatch.setattr("empowerment.variational.collect.RESET_PROBABILITY", 0.0)
    world = emp.make("box-movable")
    where = training._collector(world, configure(1, {"batch": 64}))

    class Policy:
        def __call__(self, frames, rows, *, key):
            return jnp.zeros((len(rows), 1), int), jnp.zeros(len(rows))

        def value(self, seen, rows):
            frames = seen.frames[rows]
            return -(frames.sum(-1).reshape(len(frames), -1).argmax(-1) // frames.shape[2])

    agents = where.init(jax.random.key(0))
    for step in range(20):
        agents, _ = where.collect(agents, Policy(), key=jax.random.key(step))
    rows = np.asarray(agents.walkers.agent) // world.map.cells.shape[1]
    assert len(rows) == 8
    assert rows.max() <= 2, "the top row, or the one below where a box was pushed ahead"


def test_states_of_walkers_join_the_archive(monkeypatch):
    """Every eighth walker's state takes the oldest place, with the error that was met there."""
    monkeypatch.setattr("empowerment.variational.collect.VISITED", 12)
    world = emp.make("box-movable")
    run = training.prepare(world, make_config(world, 2, {**SIZES, "batch": 512}))
    where, state = run.collector, run.init(0).agents
    fixed = len(where.weights)
    assert where.walkers == 64
    assert len(state.errors) == fixed + 12
    assert float(where.priorities(state)[fixed:].sum()) == pytest.approx(VISITED_SHARE)
    for update in range(2):
        state, _ = collected(run)
        state = state._replace(added=jnp.asarray(8 * update))
        after = where.feedback(state, jnp.arange(512.0))
        walkers, places = np.arange(8 * update, 8 * update + 8), np.arange(8) + 8 * update
        kept = take(after.visited, places % 12)
        assert np.array_equal(identify(kept), identify(take(state.walkers, walkers)))
        assert np.array_equal(after.errors[fixed + places % 12], np.float32(walkers) ** 2)
        assert int(after.added) == 8 * update + 8
    visited = state._replace(errors=jnp.zeros_like(state.errors).at[fixed:].set(1.0))
    drawn = where.collect(
        visited, LearnerPolicy(run.learner, run.init(0).learner), key=jax.random.key(0)
    )[0]
    assert (np.asarray(drawn.drawn) >= fixed).mean() > 0.6, "windows go back to where errors are"


def test_what_is_refused_leaves_nothing_behind(small, tmp_path):
    class Refusing:
        def start(self, facts):
            raise ValueError("no room for curves")

        def log(self, step, metrics): ...

        def finish(self): ...

    for settings, why in (
        ({"trackers": [Refusing()]}, "no room for curves"),
        ({"outcomes": 4}, "outcomes=4 is for stochastic worlds"),
        ({"method": "reparameterised"}, "needs continuous actions"),
    ):
        with pytest.raises(ValueError, match=why):
            emp.train(small, 2, out=tmp_path / "run", **TINY, **settings)
        assert not (tmp_path / "run" / "run.json").exists()
    emp.train(small, 2, out=tmp_path / "run", **TINY)
