"""Environments that break their promises: one sentence that names the environment and the call."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

import empowerment as emp
from empowerment.worlds.learnable import HostWorld


class Bad(VectorEnv):
    """Two copies, both as bad as `fault` says."""

    num_envs = 2
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012
    single_action_space = spaces.Discrete(2)

    def __init__(self, fault=None, space=None):
        self.single_observation_space = space or spaces.Box(-1, 1, (3,), np.float32)
        self._fault, self._array = fault, np.zeros((2, 3), np.float32)

    def reset(self, *, seed=None, options=None):
        return (self._array, {}, "more") if self._fault == "parts of reset" else (self._array, {})

    def step(self, actions):
        self._array += 1  # the array that reset returned
        seen = {
            "shape": np.zeros((2, 4)),
            "count": np.zeros((3, 3)),
            "scalar": 0.0,
            "type": np.zeros((2, 3), complex),
            "words": np.full((2, 3), "up"),
            "nothing": None,
            "nan": np.full((2, 3), np.nan),
            "large": np.full((2, 3), 1e300),
        }.get(self._fault, self._array)
        reward = {"reward": [0.0, np.nan], "words for reward": "much"}.get(self._fault, np.zeros(2))
        over = {"flags": np.zeros(3, bool), "floating flags": np.array([0.5, 1.0])}.get(
            self._fault, np.zeros(2, bool)
        )
        if self._fault == "exception":
            raise RuntimeError("two\nlines")
        if self._fault == "final":
            return seen, reward, ~over, over, {"final_obs": np.array([None, None])}
        return (
            (seen, reward, over)
            if self._fault == "parts"
            else (seen, reward, over, np.zeros(2, bool), {})
        )


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("shape", r"observations of shape \(4,\) from step"),
        ("count", r"3 observations for 2 copies from step"),
        ("scalar", r"observations of shape \(\) from step"),
        ("type", r"observations of type complex128 from step"),
        ("words", r"observations of type <U2 from step"),
        ("nothing", r"observations of shape \(\) from step"),
        ("nan", r"NaN or infinity from step"),
        ("large", r"NaN or infinity from step"),
        ("reward", r"reward \[0.0, nan\] from step"),
        ("words for reward", r"reward much from step"),
        ("flags", r"bool\(3,\) from step; give one boolean for each of its 2 copies"),
        ("floating flags", r"float64\(2,\) from step"),
        ("exception", r"failed in step: RuntimeError: two lines"),
        ("final", r"observations of shape \(\) from step"),
        ("parts", r"returned no 5 parts from step"),
        ("parts of reset", r"returned no 2 parts from reset"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_the_environment_and_the_call_are_named(fault, words):
    world = HostWorld(Bad(fault), "bad one")
    with pytest.raises(ValueError, match=rf"environment 'bad one' .*{words}") as caught:
        [world.begin(0), world.move(np.array([0, 1]))]
    assert len(str(caught.value).splitlines()) == 1


def test_numbers_outside_of_their_space():
    world = HostWorld(Bad(space=spaces.Discrete(3)), "bad one")
    for bad, words in (([0, 7], "outside of"), ([0.5, 1.0], "of type float64")):
        world.env._array = np.array(bad)
        with pytest.raises(ValueError, match=f"environment 'bad one' .*{words}"):
            world.begin(0)


def test_an_array_that_is_written_into_again_is_not_believed():
    world = HostWorld(Bad(), "sly")
    world.begin(0)
    first = world.seen
    world.move(np.array([0, 1]))
    assert (first == 0).all()
    assert (world.seen == 1).all()


class Endless(gymnasium.Env):
    """Never ends, and changes the type of what it shows."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self._count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self._count += 1
        seen = np.zeros(2, np.float64 if self._count % 2 else np.int8)
        return seen, float("nan") if self._count > 50 else 0.0, False, False, {}


def test_episodes_may_be_endless_and_rewards_may_not_be_nan():
    env = emp.EmpowermentReward(Endless(), Constant())
    env.reset(seed=0)
    assert not any(env.step(0)[2] for _ in range(50))
    with pytest.raises(ValueError, match="environment 'Endless' returned reward nan from step"):
        env.step(0)


class Constant:
    """Knows one value for every observation."""

    def empowerment(self, observations):
        return np.ones(len(observations))


def test_the_reward_wrapper_names_what_it_is_shown():
    env = Endless()
    env.reset = lambda **_: (np.zeros(3, np.float32), {})
    wrapped = emp.EmpowermentReward(env, Constant())
    with pytest.raises(
        ValueError, match=r"environment 'Endless' returned observations of shape \(3,\) from reset"
    ):
        wrapped.reset()
