"""Empowerment with feedback: closed forms, an independent slow dynamic programme, invariances and
limits."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy

import empowerment as emp
from empowerment.behaviour import (
    Greedy,
    exact_value,
    feedback_source,
    plan,
    plan_informed,
    run_episodes,
)
from empowerment.cli import main
from empowerment.worlds.table import TableWorld
from empowerment.worlds.world import take

ROOM = "#######\n#a..#.#\n#.#...#\n#######"


def slow(table, horizon, discount=1.0):
    """One state and step at a time, by plain Blahut-Arimoto with a reward: values from below."""
    states, actions, _ = table.shape
    value = np.zeros(states)
    for _ in range(horizon):
        value = np.array([slow_step(table[s], discount * table[s] @ value) for s in range(states)])
    assert actions
    return value


def slow_step(rows, reward):
    source = np.full(len(rows), 1 / len(rows))
    for _ in range(20_000):
        output = np.maximum(source @ rows, 1e-300)
        divergence = np.where(rows > 0, rows * np.log(np.maximum(rows, 1e-300) / output), 0).sum(1)
        score = divergence + reward
        if score.max() - source @ score < 1e-9:
            break
        source = source * np.exp(score - score.max())
        source /= source.sum()
    return source @ score


def random_table(seed, states=4, actions=3, sparse=True):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(states, 0.4), size=(states, actions))
    if sparse:
        table[table < 0.05] = 0.0
    return table / table.sum(-1, keepdims=True)


@pytest.mark.parametrize("options", [{}, {"slip": 0.2}])
def test_one_step_is_open_loop(options):
    world = emp.make(ROOM, **options)
    closed, open_ = emp.exact(world, 1, feedback=True), emp.exact(world, 1)
    np.testing.assert_allclose(closed.nats, open_.nats, rtol=0, atol=1e-9)


def trajectories(world, state, horizon):
    """Distinct sequences of states, all action sequences tried one by one."""
    found = set()
    for actions in itertools.product(range(len(world.actions)), repeat=horizon):
        here, path = state, []
        for action in actions:
            here = world.step(here, np.int64(action), np.int64(0))
            path.append(tuple(np.asarray(x).tobytes() for x in here))
        found.add(tuple(path))
    return len(found)


@pytest.mark.parametrize("horizon", [2, 4])
def test_deterministic_worlds_count_trajectories(horizon):
    world = emp.make("#####\n#ab.#\n#...#\n#####")  # a box that can be pushed
    land = emp.exact(world, horizon, feedback=True)
    slowly = [np.log(trajectories(world, take(land.states, i), horizon)) for i in range(len(land))]
    np.testing.assert_allclose(land.nats, slowly, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("horizon", "discount"), [(3, 1.0), (6, 0.8)])
def test_random_tables_against_a_slow_programme(seed, horizon, discount):
    table = random_table(seed)
    land = emp.exact(emp.from_transitions(table), horizon, feedback=True, discount=discount)
    truth = slow(table, horizon, discount)
    np.testing.assert_allclose(land.nats, truth, rtol=0, atol=1e-6)
    assert (land.upper - land.lower).max() <= 1e-9 * horizon
    assert (land.upper >= truth - 1e-7).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_feedback_never_hurts(seed, horizon):
    world = emp.from_transitions(random_table(seed))
    closed, open_ = emp.exact(world, horizon, feedback=True), emp.exact(world, horizon)
    assert (closed.upper >= open_.lower - 1e-9).all()
    assert (
        np.diff([emp.exact(world, k, feedback=True).nats for k in (1, 2, 3)], axis=0) > -1e-8
    ).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_names_of_states_and_actions_do_not_matter(seed, random):
    table = random_table(seed)
    order, actions = list(range(len(table))), list(range(table.shape[1]))
    random.shuffle(order)
    random.shuffle(actions)
    renamed = table[np.ix_(order, actions, order)]
    first = emp.exact(emp.from_transitions(table), 3, feedback=True).nats
    second = emp.exact(emp.from_transitions(renamed), 3, feedback=True).nats
    np.testing.assert_allclose(first[order], second, rtol=0, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 0.9))
def test_a_repeated_action_and_a_state_split_at_random_add_nothing(seed, share):
    table = random_table(seed)
    states, actions, _ = table.shape
    truth = emp.exact(emp.from_transitions(table), 3, feedback=True).nats
    # The last state becomes two that are alike, and which one is come to is chance.
    split = np.zeros((states + 1, actions + 1, states + 1))
    split[:states, :actions, :states] = table
    split[:states, :actions, states] = (1 - share) * table[:, :, -1]
    split[:states, :actions, states - 1] *= share
    split[states] = split[states - 1]
    split[:, actions] = split[:, 0]
    found = emp.exact(emp.from_transitions(split), 3, feedback=True).nats
    np.testing.assert_allclose(found[:states], truth, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found[states], truth[-1], rtol=0, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"slip": 0.2}])
def test_an_endless_horizon_is_a_long_one(options):
    world = emp.make(ROOM, **options)
    endless = emp.exact(world, math.inf, feedback=True, discount=0.9)
    long = emp.exact(world, 300, feedback=True, discount=0.9)
    assert (endless.upper - endless.lower).max() < 3e-9
    assert (endless.lower <= long.upper + 1e-8).all()
    assert (endless.upper >= long.lower - 1e-8).all()


def test_the_source_is_what_attains_the_value():
    table = random_table(7)
    land = emp.exact(emp.from_transitions(table), 2, feedback=True)
    after = emp.exact(emp.from_transitions(table), 1, feedback=True).nats
    output = np.einsum("sa,sat->st", land.source, table)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(table > 0, table * np.log(table / output[:, None]), 0.0)
    value = (land.source * (terms.sum(-1) + table @ after)).sum(-1)
    np.testing.assert_allclose(value, land.nats, rtol=0, atol=1e-6)


def test_a_world_that_has_ended_tells_nothing():
    world = emp.make("windy-bridge")
    fallen = np.flatnonzero(world.terminal(np.arange(world.size)))
    assert emp.exact(world, 9, states=fallen, feedback=True).nats.tolist() == [0.0]


def test_landscapes_with_feedback_are_kept_and_not_mixed_up(tmp_path):
    world = emp.make(ROOM)
    land = emp.exact(world, math.inf, feedback=True, discount=0.5)
    land.save(tmp_path / "land.safetensors")
    again = emp.Landscape.load(tmp_path / "land.safetensors")
    assert (again.horizon, again.feedback, again.discount) == (math.inf, True, 0.5)
    assert np.array_equal(again.source, land.source)
    with pytest.raises(ValueError, match="compare the same quantity"):
        emp.compare(emp.exact(world, 2), emp.exact(world, 2, feedback=True))


@pytest.mark.parametrize(
    ("horizon", "options", "words"),
    [
        (math.inf, {"feedback": True}, r"math.inf with feedback=True and a discount below 1"),
        (math.inf, {}, "not a number of actions"),
        (2.5, {"feedback": True}, "not a number of actions"),
        (2, {"discount": 0.9}, "discount=0.9 is for feedback=True"),
        (2, {"feedback": True, "discount": 0.0}, "give a number above 0, at most 1"),
        (2, {"feedback": True, "discount": 1.5}, "give a number above 0, at most 1"),
    ],
)
def test_what_does_not_fit_is_refused(horizon, options, words):
    with pytest.raises(ValueError, match=words):
        emp.exact(emp.make(ROOM), horizon, **options)


def where_agents_end(behaviour, world, count=100):
    """Where episodes of 60 steps end: fallen, left of the bridge, on it or right of it."""
    starts = np.full(count, world.start)
    ends = [e.states[-1] for e in run_episodes(world, behaviour, starts, 60)]
    alive = ~world.terminal(np.array(ends))
    columns = world.locate(np.array(ends))[:, 1]
    return {
        "fallen": int((~alive).sum()),
        "left": int((alive & (columns < 2)).sum()),
        "right": int((alive & (columns > 5)).sum()),
    }


def test_with_feedback_agents_cross_the_windy_bridge():
    world = emp.make("windy-bridge")
    open_ = where_agents_end(Greedy(world, exact_value(world, 5)), world)
    closed = where_agents_end(Greedy(world, exact_value(world, 5, feedback=True)), world)
    assert open_["right"] == 0
    assert open_["left"] == 100
    assert closed["right"] >= 95


def test_the_source_with_feedback_can_be_played():
    world = emp.make(ROOM)
    draw, rng = feedback_source(world, 3), np.random.default_rng(0)
    land = emp.exact(world, 3, feedback=True)
    drawn = [int(draw(world.start, rng)[0]) for _ in range(2000)]
    (start,) = np.flatnonzero(
        (land.positions == world.locate(take(land.states, slice(0, 1)))).all(1)
    )
    share = np.bincount(drawn, minlength=5) / 2000
    np.testing.assert_allclose(share, land.source[start], atol=0.05)


def test_both_limits_of_reward_and_information():
    world = emp.make(ROOM, slip=0.1)
    states, rng = world.states(), np.random.default_rng(0)
    worth = rng.normal(size=64)

    def reward(batch):
        return worth[np.asarray(batch.agent)]

    bare = plan_informed(world, reward, 0.0, discount=0.9)
    planned = plan(world, reward, 0.9, starts=states)
    # Q(s, a) of value iteration, whose largest is the value.
    np.testing.assert_allclose(bare.value(states), planned.scores(states).max(1), atol=1e-6)
    nothing = plan_informed(world, lambda batch: 0.0 * worth[batch.agent], 2.0, 0.9)
    truth = emp.exact(world, math.inf, states, feedback=True, discount=0.9)
    np.testing.assert_allclose(nothing.value(states), 2 * truth.nats, atol=1e-6)
    both = plan_informed(world, reward, 0.5, discount=0.9)
    assert (both.value(states) >= bare.value(states) - 1e-6).all()
    chosen = both(states, rng).actions
    assert chosen.shape == (len(states.agent), 1)
    with pytest.raises(ValueError, match="must be a number of 0 or more"):
        plan_informed(world, reward, -1.0)


def test_the_command_line(capsys, tmp_path):
    main(["exact", "windy-bridge", "--horizon", "inf", "--feedback", "--discount", "0.9", "--json"])
    assert '"feedback": true' in capsys.readouterr().out
    main(["act", "windy-bridge", "--horizon", "5", "--feedback", "--steps", "30"])
    assert "alive" in capsys.readouterr().out
    main(["exact", "windy-bridge", "--feedback", "--out", str(tmp_path)])
    assert "with feedback" in capsys.readouterr().out
    for bad in (["--horizon", "inf"], ["--discount", "0.5"], ["--feedback", "--part", "0/2"]):
        with pytest.raises(SystemExit) as stop:
            main(["exact", "windy-bridge", *bad, "--out", str(tmp_path / "x")])
        assert stop.value.code == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.slow
def test_feedback_never_hurts_in_any_task_of_the_benchmark():
    for task in emp.bench.tasks():
        if task.kind != "settable" or not task.landscape_world().enumerable:
            continue
        world, states = task.landscape_world(), task.states()
        closed = emp.exact(world, task.horizon, states, feedback=True)
        assert (closed.upper >= task.truth().lower - 1e-8).all(), task.name


def test_the_source_is_certain_where_one_action_is_best_by_far():
    """Reward alone decides: value iteration's action, whatever little information costs."""
    table = np.zeros((2, 2, 2))
    table[:, 0], table[:, 1] = [0.9, 0.1], [0.1, 0.9]
    world = emp.from_transitions(table)
    informed = plan_informed(world, lambda states: 1.0 * (states == 0), 0.1, discount=0.9)
    sources = np.array([source for _, source in informed.table.values()])
    np.testing.assert_allclose(sources, [[1, 0], [1, 0]], atol=1e-6)
    assert informed.value(world.states()) == pytest.approx(9.0, abs=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_the_source_earns_the_value_that_is_promised(seed):
    """The first step's information and what follows, by the source of the landscape."""
    table = random_table(seed, states=6, actions=4)
    table[0] = 0.0
    table[0, 0, [1, 5]], table[0, 1:, [1, 5]] = [0.9, 0.1], np.array([[0.4], [0.6]])
    table[5] = np.eye(6)[5]
    world = emp.from_transitions(table)
    later, now = (emp.exact(world, k, feedback=True) for k in (5, 6))
    for s, source in enumerate(now.source):
        output = source @ table[s]
        told = xlogy(table[s], table[s] / np.maximum(output, 1e-300)).sum(-1)
        assert source @ (told + table[s] @ later.nats) == pytest.approx(now.nats[s], abs=1e-6)


def test_rows_that_are_written_differently_are_the_same():
    successors = np.array([[[0, 0], [0, 0]], [[0, 1], [0, 1]]])
    odds = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]])
    world = TableWorld(successors, odds, "twice")
    land = emp.exact(world, 1, feedback=True)
    np.testing.assert_allclose(land.nats, emp.exact(world, 1).nats, atol=1e-9)
    assert land.nats[0] == 0


@pytest.mark.parametrize("horizon", [0, -1, 2.5, math.nan])
def test_bad_horizons_of_plans_are_refused(horizon):
    with pytest.raises(ValueError, match="is not a number of actions"):
        plan_informed(emp.make(ROOM), lambda states: 0.0 * states.agent, 1.0, 0.9, horizon)


def test_bad_rewards_and_unplanned_states_of_plans_are_refused():
    world = emp.make(ROOM)
    with pytest.raises(ValueError, match="no finite numbers"):
        plan_informed(world, lambda states: np.nan * states.agent, 1.0)
    tree = emp.make("tree", depth=2)
    leaf = take(tree.states(), [-1])
    informed = plan_informed(tree, lambda states: 0.0 * states, 1.0, starts=leaf)
    with pytest.raises(ValueError, match="were not planned for"):
        informed.value(tree.states())
