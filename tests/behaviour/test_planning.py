import numpy as np
import pytest

import empowerment as emp
from empowerment.behaviour import (
    Greedy,
    LookAhead,
    Random,
    arrival,
    exact_value,
    plan,
    q_learning,
    run_episodes,
    value_iteration,
)
from empowerment.behaviour.named import Setting, make_behaviour
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.world import take


def chain():
    """Three states in a row; action 0 stays, action 1 moves on, and the last state leads back to
    itself."""
    return emp.from_transitions(np.array([[0, 1], [1, 2], [2, 2]]))


def last(states, actions, after):
    return (after == 2).astype(float)


def test_value_iteration_on_a_chain_solved_by_hand():
    # V(2) = 1 / (1 - γ) = 2, V(1) = 1 + γ V(2) = 2, V(0) = γ V(1) = 1 with γ = 0.5.
    scores = value_iteration(
        np.array([[[0], [1]], [[1], [2]], [[2], [2]]]),
        np.ones((3, 2, 1)),
        np.array([[[0.0], [0]], [[0], [1]], [[1], [1]]]),
        0.5,
    )
    np.testing.assert_allclose(scores, [[0.5, 1], [1, 2], [2, 2]], atol=1e-9)


def test_value_iteration_with_chance_by_hand():
    # One action that succeeds with probability 1/4: V(0) = (1/4)(1 + γ V(1)) + (3/4) γ V(0), V(1) =
    # 0.
    successors, odds = np.array([[[1, 0]], [[1, 1]]]), np.array([[[0.25, 0.75]], [[0.5, 0.5]]])
    rewards = np.array([[[1.0, 0.0]], [[0.0, 0.0]]])
    scores = value_iteration(successors, odds, rewards, 0.8)
    np.testing.assert_allclose(scores, [[0.25 / (1 - 0.6)], [0]], atol=1e-9)


def test_without_discount_planning_is_greedy():
    world = emp.make("two-rooms")
    value, states, rng = exact_value(world, 5), world.states(), np.random.default_rng
    np.testing.assert_array_equal(
        plan(world, value, 0.0)(states, rng(0)).actions,
        Greedy(world, value)(states, rng(0)).actions,
    )


def test_planning_gives_up_now_what_pays_later():
    # Greedy stays in the small room; the door that planning opens leads to a larger one.
    world = GridWorld(
        Map.parse("##########\n#ka.d....#\n####.....#\n####.....#\n##########", "rooms")
    )
    value = exact_value(world, 2)
    start = take(world.states(), [0])
    greedy = run_episodes(world, Greedy(world, value), start, 40)[0]
    planned = run_episodes(world, plan(world, value, 0.97), start, 40)[0]
    assert not greedy.states.carrying[-1]
    assert planned.states.carrying[-1]
    assert planned.empowerment[-1] > greedy.empowerment[-1] + 0.1


def test_q_learning_reaches_value_iteration_in_a_deterministic_world():
    world = GridWorld(Map.parse("#####\n#a..#\n#...#\n#####", "room"))
    value, states = exact_value(world, 1), world.states()
    learned = q_learning(world, value, 0.8, steps=1500, epsilon=0.5)
    np.testing.assert_allclose(
        learned.scores(states), plan(world, value, 0.8).scores(states), atol=1e-6
    )


def test_q_learning_expects_nothing_after_death():
    world = GridWorld(Map.parse("######\n#a..l#\n######", "lava"), bricks=True)
    value, states = exact_value(world, 2), world.states()
    learned = q_learning(world, value, 0.8, steps=3000, epsilon=0.5)
    truth = plan(world, value, 0.8).scores(states)
    assert (truth == 0).any()  # some actions lead to death at once
    np.testing.assert_allclose(learned.scores(states), truth, atol=1e-6)


def test_q_learning_approaches_value_iteration_in_a_random_world():
    rng = np.random.default_rng(0)
    world = emp.from_transitions(rng.dirichlet(np.ones(4), size=(4, 2)))
    value = exact_value(world, 1)
    learned = q_learning(world, value, 0.5, steps=4000, epsilon=1.0)
    truth = plan(world, value, 0.5).scores(world.states())
    np.testing.assert_allclose(learned.scores(world.states()), truth, atol=0.02)


def test_q_learning_is_determined_by_its_seed():
    world = GridWorld(Map.parse("######\n#a...#\n######", "room"), slip=0.5)
    one, same, other = (
        q_learning(world, exact_value(world, 1), steps=30, seed=seed) for seed in (0, 0, 1)
    )
    assert all(np.array_equal(one.table[name], same.table[name]) for name in one.table)
    assert any(not np.array_equal(one.table[name], other.table[name]) for name in one.table)


def test_look_ahead_of_one_step_is_greedy():
    world = GridWorld(Map.parse("#######\n#a....#\n#######", "corridor"))
    value, states, rng = exact_value(world, 1), world.states(), np.random.default_rng(0)
    scores = LookAhead(world, value, depth=1, futures=1).scores(states, rng)
    np.testing.assert_allclose(scores, Greedy(world, value)(states, rng).expected)


def test_look_ahead_along_greedy_futures_by_hand():
    # Right, then stay among the best: ln 3 twice, the second discounted; staying first costs ln 3 -
    # ln 2 at once.
    world = GridWorld(Map.parse("######\n#a...#\n######", "corridor"))
    value = exact_value(world, 1)
    ahead = LookAhead(world, value, 0.5, depth=2, futures=2)
    scores = ahead.scores(take(world.states(), [0]), np.random.default_rng(0))[0]
    assert scores[3] == pytest.approx(1.5 * np.log(3))
    assert scores[4] == pytest.approx(np.log(2) + 0.5 * np.log(3))


def test_look_ahead_along_random_futures_is_their_mean():
    # One random step after the first: from the left end, one action of five leads to ln 3 and the
    # others to ln 2.
    world = GridWorld(Map.parse("######\n#a...#\n######", "corridor"))
    value = exact_value(world, 1)
    ahead = LookAhead(world, value, 1.0, depth=2, futures=4000, policy=Random(world, value))
    scores = ahead.scores(take(world.states(), [0]), np.random.default_rng(0))[0]
    assert scores[4] == pytest.approx(np.log(2) + 0.8 * np.log(2) + 0.2 * np.log(3), abs=0.01)


@pytest.mark.parametrize("gamma", [0.97, 0.99])
def test_planning_takes_the_key_and_stands_next_to_the_door(gamma):
    world = emp.make("key-door")
    value, states = exact_value(world, 5), world.states()
    door = next(np.array([r, c]) for kind, r, c in world.layout.marks if kind == "door")
    starts = take(states, world.locate(states)[:, 1] < door[1])
    ahead = LookAhead(world, value, gamma, depth=40, futures=1)
    for behaviour, some in (
        (plan(world, value, gamma), starts),
        (ahead, take(starts, slice(0, 40, 13))),
    ):
        for episode in run_episodes(world, behaviour, some, 40):
            assert abs(episode.path[-1] - door).sum() == 1
            assert episode.states.carrying[-1]
            assert not episode.states.doors[-1, 0]


def test_a_task_is_planned_like_empowerment():
    world = emp.make("two-rooms")
    to = plan(world, exact_value(world, 1), 0.9, arrival(world, (1, 1)))
    for episode in run_episodes(world, to, world.states(), 40):
        assert tuple(episode.path[-1]) == (1, 1)


def test_worlds_too_large_for_value_iteration_say_so():
    world = emp.make("lava-corridor")
    with pytest.raises(ValueError, match="use q_learning or LookAhead"):
        plan(world, exact_value(world, 1))


@pytest.mark.parametrize("gamma", [1.0, -0.1, float("nan")])
def test_a_discount_must_discount(gamma):
    with pytest.raises(ValueError, match="gamma"):
        plan(chain(), exact_value(chain(), 1), gamma)
    with pytest.raises(ValueError, match="gamma"):
        LookAhead(chain(), exact_value(chain(), 1), gamma * 1.5)


@pytest.mark.parametrize("name", ["model-free", "q-learning", "look-ahead"])
def test_what_lists_actions_refuses_forces(name):
    world = emp.make("point-mass")
    setting = Setting(
        world, lambda states: np.zeros(len(states)), lambda states, rng: np.zeros((1, 1))
    )
    with pytest.raises(ValueError, match="needs actions that can be listed"):
        make_behaviour(name, setting)


def test_planning_on_the_chain_uses_the_reward():
    world = chain()
    choice = plan(world, exact_value(world, 1), 0.5, last)(
        np.array([0, 1], np.int32), np.random.default_rng(0)
    )
    np.testing.assert_array_equal(choice.actions[:, 0], 1)
