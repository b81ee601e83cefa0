import numpy as np
import pytest

import empowerment as emp
from empowerment.behaviour import (
    Greedy,
    Random,
    exact_value,
    expected_value,
    learn_averages,
    run_episode,
    run_episodes,
)
from empowerment.behaviour.behaviour import candidates
from empowerment.behaviour.greedy import Averages
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.world import take

K = 5


def corridor(slip=0.0):
    return GridWorld(Map.parse("#######\n#a....#\n#######", "corridor"), slip=slip)


def test_expected_value_by_hand():
    # With K = 1 the two ends of a corridor reach two cells and the others three.
    world = corridor()
    expected = expected_value(world, exact_value(world, 1), take(world.states(), [0, 1, 2]))
    two, three = np.log(2), np.log(3)
    np.testing.assert_allclose(expected[0], [two, two, two, three, two])
    np.testing.assert_allclose(expected[1], [three, three, two, three, three])
    np.testing.assert_allclose(expected[2], three)


def test_expected_value_averages_over_chance():
    # From the left end, right succeeds with 1 - slip + slip / 4; every other outcome stays.
    world = corridor(slip=0.4)
    value = exact_value(world, 1)
    left, next_to_it = value(take(world.states(), [0, 1]))
    expected = expected_value(world, value, take(world.states(), [0]))[0]
    assert expected[3] == pytest.approx(0.7 * next_to_it + 0.3 * left)
    assert expected[4] == pytest.approx(0.1 * next_to_it + 0.9 * left)


def test_greedy_climbs_to_the_middle_and_stays_among_the_best():
    world = corridor()
    value = exact_value(world, 2)
    episode = run_episode(world, Greedy(world, value), 20)
    assert episode.actions[0] == episode.actions[1] == 3
    assert (episode.empowerment[2:] == np.log(5)).all()
    chosen = episode.expected[np.arange(20), episode.actions]
    np.testing.assert_allclose(chosen, episode.expected.max(axis=1), atol=1e-9)


def test_one_step_greedy_stays_at_the_key():
    world = emp.make("key-door")
    key = next((r, c) for kind, r, c in world.layout.marks if kind == "key")
    door = next(c for kind, _, c in world.layout.marks if kind == "door")
    states = world.states()
    starts = take(states, world.locate(states)[:, 1] < door)
    for episode in run_episodes(world, Greedy(world, exact_value(world, K)), starts, 30):
        assert tuple(episode.path[-1]) == key
        assert not episode.states.carrying[-1]


@pytest.mark.parametrize(("name", "doomed"), [("lava-corridor", 2), ("lava-maze", 1)])
def test_greedy_survives_the_lava_where_random_play_does_not(name, doomed):
    world = emp.make(name)
    value, states = exact_value(world, K), world.states()
    greedy = run_episodes(world, Greedy(world, value), states, 60)
    outcome = run_episodes(world, Random(world, value), states, 60)
    assert sum(not e.alive for e in greedy) <= doomed
    assert sum(e.alive for e in outcome) < 0.6 * len(outcome)
    assert min(e.reachable_cells for e in greedy if e.alive) >= 2


def test_averages_by_hand():
    averages = Averages(2)
    views = np.array([[1.0], [1.0], [2.0], [1.0]])
    averages.update(views, np.array([0, 0, 1, 0]), np.array([2.0, 4.0, 7.0, 9.0]))
    np.testing.assert_allclose(
        averages(np.array([[1.0], [2.0], [3.0]])), [[5, np.nan], [np.nan, 7], [np.nan] * 2]
    )


def test_model_free_greedy_learns_the_expected_values():
    world = corridor(slip=0.2)
    value = exact_value(world, 1)
    learned = learn_averages(world, value, steps=1000, seed=0)
    states = world.states()
    truth = expected_value(world, value, states)
    np.testing.assert_allclose(learned.averages(world.observe(states)), truth, atol=0.03)


def test_model_free_greedy_never_asks_the_world_for_a_step():
    world = corridor()
    behaviour = learn_averages(world, exact_value(world, 2), steps=100)
    episode = run_episode(corridor(), behaviour, 10)
    assert episode.empowerment[-1] == np.log(5)
    world.step = None  # its own world cannot be stepped any more
    choice = behaviour(world.states(), np.random.default_rng(0))
    assert choice.actions[0, 0] == 3


@pytest.mark.parametrize("options", [{}, {"power": None}, {"dimensions": 2}])
def test_forces_to_compare_are_single_precision(options):
    forces = candidates(emp.make("point-mass", **options))
    assert forces.dtype == np.float32
    assert np.abs(forces).max() == 1
    assert (forces == 0).all(axis=1).sum() == 1
