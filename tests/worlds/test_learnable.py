"""Gymnasium environments that can only be learned on: what fits, what to wrap, and what they do
wrong."""

import gymnasium
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import FlattenObservation, TransformObservation

import empowerment as emp
from empowerment.worlds.learnable import HostWorld, action_names, check_observations, to_frames


class Plain(gymnasium.Env):
    """An environment with these spaces, or with these faults."""

    def __init__(self, observation=None, action=None, faulty=None):
        self.observation_space = observation or spaces.Box(-1, 1, (2,))
        self.action_space = action or spaces.Discrete(2)
        self._faulty = faulty
        self.actions = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self._faulty == "reset":
            raise RuntimeError("no such level")
        return self.observation_space.sample(), {}

    def step(self, action):
        self.actions.append(action)
        if self._faulty == "step":
            raise KeyError("door")
        seen = self.observation_space.sample()
        seen = {"nan": seen * np.nan, "shape": np.zeros(3, np.float32)}.get(self._faulty, seen)
        return seen, 0.0, False, False, {}


def test_several_choices_are_one_action():
    env = Plain(action=spaces.MultiDiscrete([2, 3], start=[0, 4]))
    world = emp.from_gymnasium(env)
    assert len(world.actions) == 6
    assert world.actions[4] == "action (1, 5)"
    world.begin(0)
    world.move(np.array([4]))
    assert env.actions[0].tolist() == [1, 5]


def test_buttons_pressed_together_are_one_action():
    env = Plain(action=spaces.MultiBinary(3))
    world = emp.from_gymnasium(env)
    assert world.actions[5] == "action 101"
    world.begin(0)
    world.move(np.array([5]))
    assert env.actions[0].tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="more than 1024 actions"):
        emp.from_gymnasium(Plain(action=spaces.MultiBinary(11)))


def test_numbered_observations_are_shown_one_by_one():
    space = spaces.Discrete(3, start=5)
    assert to_frames(space, np.array([5, 7])).tolist() == [[1, 0, 0], [0, 0, 1]]
    world = emp.from_gymnasium(gymnasium.make("FrozenLake-v1"), learn=True, copies=2)
    assert isinstance(world, HostWorld)
    world.begin(0)
    assert world.seen.shape == (2, 16)
    assert world.seen.argmax(1).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Dict({"a": spaces.Box(0, 1, (2,))}), "FlattenObservation or, for MiniGrid"),
        (spaces.Box(0, 255, (84, 84), np.uint8), "ReshapeObservation"),
        (spaces.Box(0, 1, (3, 3)), "FlattenObservation"),
        (spaces.MultiBinary(4), "FlattenObservation"),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), "channels last"),
        (spaces.Box(0, 255, (210, 160, 3), np.uint8), "ResizeObservation"),
        (spaces.Discrete(10**6), "FlattenObservation"),
    ],
)
def test_observations_that_do_not_fit_say_what_to_wrap(space, words):
    with pytest.raises(ValueError, match=rf"environment 'x' has observations .*{words}"):
        check_observations(space, "x")


def test_vectors_are_scaled_to_the_bounds_of_the_environment():
    world = emp.from_gymnasium(gymnasium.make("Pendulum-v1"), copies=2)
    assert world.continuous.size == 1
    sent = world._to_environment(np.array([[-1.0], [0.5]], np.float32))
    assert sent.tolist() == [[-2.0], [1.0]]
    world.begin(0)
    moved = world.move(world.draw_actions((2,), np.random.default_rng(0)))
    assert moved.end.shape == (2, 3)
    world.close()


def test_actions_that_do_not_fit():
    with pytest.raises(ValueError, match="without bounds"):
        action_names(spaces.Box(-np.inf, np.inf, (2,)), "x")
    with pytest.raises(ValueError, match="more than 1024 actions"):
        action_names(spaces.MultiDiscrete([100] * 9), "x")
    with pytest.raises(ValueError, match="Discrete, MultiDiscrete, MultiBinary or a vector"):
        action_names(spaces.Text(3), "x")


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        ("reset", r"environment 'Plain' failed in reset: RuntimeError: no such level"),
        ("step", r"environment 'Plain' failed in step: KeyError: 'door'"),
        ("nan", r"environment 'Plain' returned NaN or infinity from step"),
        ("shape", r"environment 'Plain' failed in step: ValueError"),
    ],
)
def test_environments_that_misbehave_are_named(faulty, words):
    world = emp.from_gymnasium(Plain(faulty=faulty))
    with pytest.raises(ValueError, match=words):
        [world.begin(0), world.move(np.array([0]))]


def test_what_cannot_be_used_is_refused():
    lake = gymnasium.make("FrozenLake-v1")
    with pytest.raises(
        ValueError, match=r"copies=3 .* 'FrozenLake-v1' is enumerated; .* learn=True"
    ):
        emp.from_gymnasium(lake, copies=3)
    with pytest.raises(ValueError, match=r"copies=0"):
        emp.from_gymnasium(Plain(), copies=0)
    with pytest.raises(ValueError, match=r"'Plain' cannot be made again from its spec.*lambda"):
        emp.from_gymnasium(Plain(), copies=2)
    with pytest.raises(ValueError, match=r"vector environment already"):
        emp.from_gymnasium(
            gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync"), copies=2
        )
    silent = VectorEnv()
    silent.num_envs, silent.metadata = 2, {}
    with pytest.raises(ValueError, match=r"autoreset_mode"):
        emp.from_gymnasium(silent)


def test_copies_keep_their_wrappers():
    env = FlattenObservation(gymnasium.make("CartPole-v1", sutton_barto_reward=True))
    world = emp.from_gymnasium(env, copies=2)
    assert [type(e) for e in world.env.envs] == [FlattenObservation] * 2
    again = TransformObservation(env, lambda x: x * 2, env.observation_space)
    assert emp.from_gymnasium(again).copies == 1


def test_processes_of_their_own():
    world = emp.from_gymnasium(gymnasium.make("CartPole-v1"), copies=2, processes=True)
    try:
        world.begin(3)
        first = world.seen
        moved = world.move(np.array([0, 1]))
        assert not np.array_equal(moved.end[0], moved.end[1])
        world.begin(3)
        assert np.array_equal(world.seen, first), "seeded"
    finally:
        world.close()


def test_our_own_environments_are_exact():
    world = emp.from_gymnasium(gymnasium.make("empowerment/TwoRooms-v0"))
    assert emp.exact(world, 1).nats.max() == pytest.approx(np.log(5))
