"""Every behaviour through one protocol, with exact and with learned empowerment."""

import json

import numpy as np
import pytest

import empowerment as emp
from empowerment.behaviour import (
    Behaviour,
    Greedy,
    Random,
    exact_source,
    exact_value,
    learned_source,
    learned_value,
    run_episode,
    run_episodes,
)
from empowerment.behaviour.behaviour import advance, outcomes, pick
from empowerment.behaviour.episode import reachable_cells
from empowerment.behaviour.named import BEHAVIOURS, Setting, make_behaviour, most_empowered_place
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.world import identify, take

ROOM = "######\n#....#\n#.a..#\n#....#\n######"


def room(**options):
    return GridWorld(Map.parse(ROOM, "room"), **options)


class Brightness:
    """Stands for a trained estimator: its empowerment is a number read from the picture, its source
    is even."""

    def __init__(self, actions):
        self.actions = actions

    def empowerment(self, observations):
        weights = np.linspace(0, 1, observations[0].size).reshape(observations[0].shape)
        return (observations * weights).sum(axis=(1, 2, 3)) / 1e4

    def source(self, observation, samples=1, seed=0):
        return (
            np.random.default_rng(seed).integers(self.actions, size=(samples, 3)).astype(np.int32)
        )


def setting(world, learned):
    estimator = Brightness(len(world.actions))
    if learned:
        return Setting(
            world, learned_value(world, estimator), learned_source(world, estimator), experience=100
        )
    return Setting(world, exact_value(world, 2), exact_source(world, 2), experience=100)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("slip", [0.0, 0.2])
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_every_behaviour_keeps_the_protocol(name, slip, learned):
    world = room(slip=slip)
    behaviour = make_behaviour(name, setting(world, learned))
    assert isinstance(behaviour, Behaviour)
    states = world.states()
    choice = behaviour(states, np.random.default_rng(0))
    assert choice.actions.ndim == 2
    assert len(choice.actions) == len(states.agent)
    assert choice.actions.shape[1] == 1 or name == "source"
    assert choice.actions.min() >= 0
    assert choice.actions.max() < len(world.actions)
    again = behaviour(states, np.random.default_rng(0))
    np.testing.assert_array_equal(choice.actions, again.actions)
    episode = run_episode(world, behaviour, 7, seed=1)
    assert episode.steps == 7
    assert episode.alive
    assert episode.reachable_cells == 12
    np.testing.assert_array_equal(episode.empowerment, behaviour.value(episode.states))


@pytest.mark.parametrize("name", ["greedy", "planning", "source", "random", "q-learning"])
def test_an_episode_is_determined_by_its_seed(name):
    world = room(slip=0.3)
    behaviour = make_behaviour(name, setting(world, False))
    one, same, other = (run_episode(world, behaviour, 40, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.actions, same.actions)
    np.testing.assert_array_equal(one.path, same.path)
    assert not np.array_equal(one.path, other.path)


def test_unknown_behaviours_get_a_hint():
    with pytest.raises(ValueError, match="did you mean 'greedy'"):
        make_behaviour("gredy", setting(room(), False))


def test_ties_are_drawn_evenly_and_only_among_the_best():
    scores = np.tile([1.0, 3.0, 3.0 - 5e-10, 2.9, 3.0], (3000, 1))
    counts = np.bincount(pick(scores, np.random.default_rng(0))[:, 0], minlength=5)
    assert counts[[0, 3]].sum() == 0
    assert counts[[1, 2, 4]].min() > 900


def test_random_uses_every_action_evenly():
    world = room()
    many = take(world.states(), np.zeros(5000, int))
    counts = np.bincount(
        Random(world, exact_value(world, 1))(many, np.random.default_rng(0)).actions[:, 0]
    )
    assert counts.min() > 900


def test_a_value_is_asked_once_for_each_whole_state():
    world, asked = emp.make("key-door"), []
    value = exact_value(world, 2)
    inner = value._value
    value._value = lambda states: asked.append(len(states.agent)) or inner(states)
    states = world.states()
    twice = take(states, np.r_[0:5, 0:5])
    np.testing.assert_array_equal(value(twice), emp.exact(world, 2, twice).nats)
    value(take(states, np.arange(5)))
    assert asked == [5]
    carrying = take(states, np.arange(5))._replace(
        carrying=np.ones(5, bool), keys=np.zeros((5, 1), bool)
    )
    value(carrying)
    assert asked == [5, 5]  # what the agent carries is part of the state
    assert len(value) == 10


def test_learned_values_are_those_of_the_observations():
    world, estimator = room(), Brightness(5)
    states = world.states()
    np.testing.assert_array_equal(
        learned_value(world, estimator)(states), estimator.empowerment(world.observe(states))
    )


def test_outcomes_are_the_worlds_own_steps():
    world = room(slip=0.4)
    states = world.states()
    after, odds = outcomes(world, states)
    assert odds.shape == (12, 5, 5)
    one = world.step(take(states, 7), np.int64(3), np.int64(2))
    assert identify(after)[(7 * 5 + 3) * 5 + 2] == identify(take(one, None))[0]


def test_chance_is_drawn_with_its_probabilities():
    world = emp.from_transitions(np.array([[[0.0, 0.3, 0.7]], [[0, 1, 0]], [[0, 0, 1]]]))
    after = advance(
        world, np.zeros(10000, np.int32), np.zeros(10000, int), np.random.default_rng(0)
    )
    np.testing.assert_allclose(np.bincount(after) / 10000, [0, 0.3, 0.7], atol=0.02)


def test_the_dead_stay_dead_and_their_episode_ends():
    world = GridWorld(Map.parse("######\n#a..l#\n######", "trap"))
    episode = run_episode(world, Random(world, exact_value(world, 2)), 50)
    assert not episode.alive
    assert episode.steps <= 3
    assert (
        len(episode.states.agent)
        == episode.steps + 1
        == len(episode.path)
        == len(episode.empowerment)
    )
    assert episode.reachable_cells == 0
    assert episode.empowerment[-1] == 0
    assert (episode.path[-1] == episode.path[-2]).all()


def test_the_summary_is_json():
    world = emp.make("lava-corridor")
    episode = run_episode(world, Greedy(world, exact_value(world, 2)), 5)
    summary = json.loads(json.dumps(episode.summary()))
    assert set(summary) == {"alive", "steps", "path", "actions", "empowerment", "reachable_cells"}
    assert len(summary["path"]) == 6
    assert set(summary["actions"]) <= set(world.actions)


def test_reachable_cells_stop_at_bricks_lava_and_closed_doors():
    world = GridWorld(Map.parse("#########\n#a..d.k.#\n#########", "corridor"), bricks=True)
    assert reachable_cells(world, world.start) == 3
    assert reachable_cells(world, world.start._replace(carrying=np.bool_(True))) == 7
    bricks = np.zeros(27, bool)
    bricks[9 + 2] = True
    assert reachable_cells(world, world.start._replace(bricks=bricks)) == 1


def test_many_episodes_start_where_they_are_told():
    world = room()
    episodes = run_episodes(world, Random(world, exact_value(world, 1)), world.states(), 3, seed=0)
    assert [tuple(e.path[0]) for e in episodes] == [tuple(p) for p in world.locate(world.states())]


def test_bad_arguments_are_named():
    world = room()
    behaviour = Random(world, exact_value(world, 1))
    with pytest.raises(ValueError, match="steps=0"):
        run_episode(world, behaviour, 0)
    with pytest.raises(ValueError, match="does not have"):
        run_episode(world, behaviour, 1, start=world.place(0))
    with pytest.raises(ValueError, match="horizon=0"):
        exact_value(world, 0)


def test_the_most_empowered_place_of_a_room_is_inside():
    world = GridWorld(Map.parse("#####\n#...#\n#.a.#\n#...#\n#####", "room"))
    assert most_empowered_place(world, exact_value(world, 1)) == (2, 2)
