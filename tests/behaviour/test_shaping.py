"""Shaping by a potential leaves the best policy of a task unchanged (Ng, Harada and Russell
1999)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import empowerment as emp
from empowerment.behaviour import (
    Random,
    arrival,
    exact_value,
    plan,
    potential_difference,
    q_learning,
    run_episodes,
    shape,
)
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.world import take


def random_task(seed):
    """A random decision process, its rewards, and a potential that has nothing to do with
    either."""
    rng = np.random.default_rng(seed)
    states, actions = rng.integers(2, 7), rng.integers(2, 4)
    world = emp.from_transitions(rng.dirichlet(np.full(states, 0.5), size=(states, actions)))
    rewards, potential = rng.normal(size=(states, actions, states)), 10 * rng.normal(size=states)
    return world, lambda s, a, after: rewards[s, a, after], lambda s: potential[s]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.floats(0, 0.97))
def test_any_potential_leaves_the_best_policy_of_any_task_unchanged(seed, gamma):
    world, reward, potential = random_task(seed)
    states = world.states()
    plain = plan(world, potential, gamma, reward).scores(states)
    shaped = plan(world, potential, gamma, shape(reward, world, potential, gamma)).scores(states)
    # Q of the shaped task is lower by the potential of the state, whatever the action.
    np.testing.assert_allclose(shaped, plain - potential(states)[:, None], atol=1e-7)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.95, 0.99])
def test_empowerment_leaves_the_way_to_a_place_unchanged(gamma):
    world = emp.make("two-rooms")
    value, states = exact_value(world, 5), world.states()
    reward = arrival(world, (3, 15))
    plain = plan(world, value, gamma, reward)
    shaped = plan(world, value, gamma, shape(reward, world, value, gamma, scale=2.0))
    best = [
        p.scores(states) >= p.scores(states).max(axis=1, keepdims=True) - 1e-7
        for p in (plain, shaped)
    ]
    np.testing.assert_array_equal(*best)


def test_a_difference_without_the_discount_changes_the_best_policy():
    # What the proof above would not forgive: with E(s') - E(s) the agent is paid for staying away
    # from low places.
    world = GridWorld(Map.parse("#########\n#a......#\n#########", "corridor"))
    value, states = exact_value(world, 2), world.states()
    reward = arrival(world, (1, 1))
    plain = plan(world, value, 0.5, reward).scores(states)
    wrong = plan(world, value, 0.5, shape(reward, world, value, 1.0, scale=5.0)).scores(states)
    assert (plain.argmax(axis=1) != wrong.argmax(axis=1)).any()


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_shaping_adds_to_a_return_only_what_depends_on_its_ends(seed, gamma):
    world, _, potential = random_task(seed)
    for episode in run_episodes(world, Random(world, potential), world.states(), 20, seed=0):
        before, after = take(episode.states, slice(0, -1)), take(episode.states, slice(1, None))
        added = potential_difference(world, potential, gamma, before, after)
        ends = gamma**20 * potential(episode.states[-1:]) - potential(episode.states[:1])
        assert (gamma ** np.arange(20) * added).sum() == pytest.approx(float(ends[0]), abs=1e-9)


def test_an_ended_episode_gains_a_constant_of_its_start():
    # Both ways end in a terminal state, where the potential counts as 0 even if the estimate is
    # not.
    world = GridWorld(Map.parse("#######\n#.a..l#\n#######", "trap"))

    def wrong_after_death(states):
        return exact_value(world, 2)(states) + 1

    for episode in run_episodes(
        world, Random(world, wrong_after_death), world.states(), 40, seed=0
    ):
        assert not episode.alive
        before, after = take(episode.states, slice(0, -1)), take(episode.states, slice(1, None))
        added = potential_difference(world, wrong_after_death, 0.9, before, after)
        total = (0.9 ** np.arange(episode.steps) * added).sum()
        assert total == pytest.approx(-episode.empowerment[0])


ROOMS = """
#################
#.......#.......#
#.k.....#.......#
#.......#.......#
#.......d.......#
#.......#.......#
#....a..#.......#
#.......#.......#
#################
""".strip()


def test_shaping_guides_learning_where_a_reward_is_far():
    # The task, to stand at the door with the key, pays only after both are done; empowerment leads
    # to the key.
    world = GridWorld(Map.parse(ROOMS, "rooms"))
    value = exact_value(world, 5)

    def reward(states, actions, after):
        return arrival(world, (4, 7))(states, actions, after) * after.carrying

    def solved(task):
        behaviour = q_learning(world, value, 0.95, task, steps=400)
        starts = take(world.states(), world.locate(world.states())[:, 1] < 8)
        last = [take(e.states, slice(-1, None)) for e in run_episodes(world, behaviour, starts, 60)]
        return np.mean([reward(None, np.zeros(1), states)[0] for states in last])

    assert solved(reward) < 0.2
    assert solved(shape(reward, world, value, 0.95)) > 0.6


@pytest.mark.parametrize("place", [(0, 0), (40, 1), (-1, 2)])
def test_places_that_are_not_there_are_refused(place):
    with pytest.raises(ValueError, match="not a free cell"):
        arrival(emp.make("two-rooms"), place)


def test_worlds_without_a_plane_have_no_places():
    with pytest.raises(ValueError, match="no layout"):
        arrival(emp.from_transitions(np.array([[0]])), (0, 0))
