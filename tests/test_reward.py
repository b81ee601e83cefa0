"""The reward wrappers, by numbers worked out by hand, on real environments."""

import dataclasses

import gymnasium
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import empowerment as emp
from empowerment.reward import EmpowermentReward, EmpowermentVectorReward, RunningScale, _Seen
from empowerment.worlds.beneath import Beneath

RIGHT, DOWN = 2, 1
START, NEXT = np.log(3), np.log(4)
"""Exact empowerment for one step of the lake's corner (two walls) and of the cell to its right
(one; a hole below)."""


def lake():
    return gymnasium.make("FrozenLake-v1", is_slippery=False)


class Sum:
    """Stands in for an estimator: twice the first number of an observation, and counts its
    calls."""

    def __init__(self):
        self.calls = 0

    def empowerment(self, observations):
        self.calls += 1
        return 2.0 * np.asarray(observations, np.float64).reshape(len(observations), -1)[:, 0]


class Ladder(gymnasium.Env):
    """Shows the number of the step, starting from 1; ends after the third."""

    observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, terminates=False):
        self._terminates = terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 1
        return np.array([1.0]), {}

    def step(self, action):
        self._step += 1
        over = self._step == 4
        return (
            np.array([float(self._step)]),
            10.0,
            over and self._terminates,
            over and not self._terminates,
            {},
        )


@pytest.mark.parametrize(
    ("mode", "first", "last"),
    [
        ("add", 2 * NEXT, 0.0),
        ("replace", 2 * NEXT, 0.0),
        ("shape", 2 * (0.9 * NEXT - START), -2 * NEXT),
        ("info", 0.0, 0.0),
    ],
)
def test_rewards_of_exact_empowerment(mode, first, last):
    """Right, then down into a hole, where nothing can be brought about any more."""
    env = EmpowermentReward(lake(), 1, scale=2.0, mode=mode, gamma=0.9)
    _, info = env.reset(seed=0)
    assert info["empowerment"] == pytest.approx(START)
    _, reward, terminated, _, info = env.step(RIGHT)
    assert (reward, terminated) == (pytest.approx(first), False)
    assert info["empowerment"] == pytest.approx(NEXT)
    _, reward, terminated, _, info = env.step(DOWN)
    assert (reward, terminated) == (pytest.approx(last), True)
    assert info["empowerment"] == 0
    assert type(reward) is float


def test_the_task_s_reward_is_added_to():
    rewards = {}
    for mode in ("add", "replace", "shape", "info"):
        env = EmpowermentReward(Ladder(), Sum(), scale=0.5, mode=mode, gamma=0.5)
        env.reset()
        rewards[mode] = [env.step(0)[1] for _ in range(3)]
    assert rewards["add"] == [12, 13, 14]  # a time limit ends nothing: the last state counts
    assert rewards["replace"] == [2, 3, 4]
    assert rewards["shape"] == [10 + 1 - 1, 10 + 1.5 - 2, 10 + 2 - 3]
    assert rewards["info"] == [10, 10, 10]


def test_a_landscape_is_looked_up_by_state():
    land = emp.exact(emp.from_gymnasium(lake()), 2)
    env = EmpowermentReward(lake(), land, mode="replace")
    assert env.reset()[1]["empowerment"] == land.nats[0]
    assert env.step(RIGHT)[1] == land.nats[1]
    rooms = emp.make("two-rooms")
    env = EmpowermentReward(
        gymnasium.make("empowerment/TwoRooms-v0"), emp.exact(rooms, 1), mode="replace"
    )
    env.reset()
    assert env.step(0)[1] in (np.log(2), np.log(3), np.log(4), np.log(5))
    key = emp.make("key-door")
    env = EmpowermentReward(gymnasium.make("empowerment/KeyDoor-v0"), emp.exact(key, 1, key.start))
    env.reset()
    with pytest.raises(ValueError, match="in a state that the landscape does not have"):
        [env.step(a) for a in range(5)]


def test_a_landscape_with_feedback_is_looked_up_and_probed_as_such():
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    world = emp.from_gymnasium(env)
    closed = emp.exact(world, 4, feedback=True, discount=0.9)
    _, info = EmpowermentReward(env, closed, mode="replace").reset(seed=0)
    assert info["empowerment"] == closed.nats[0]  # the lake starts in its first state
    open_loop = emp.exact(world, 4)
    assert closed.nats[0] > open_loop.nats[0] + 0.01
    lying = dataclasses.replace(closed, feedback=False, discount=1.0)
    with pytest.raises(ValueError, match="and the landscape says"):
        EmpowermentReward(env, lying).reset(seed=0)


def test_a_landscape_of_another_world_is_refused():
    other = emp.exact(emp.from_gymnasium(gymnasium.make("CliffWalking-v1")), 1)
    with pytest.raises(
        ValueError, match="is world 'FrozenLake-v1', and the landscape is of 'CliffWalking-v1'"
    ):
        EmpowermentReward(lake(), other).reset()


def test_a_landscape_of_a_world_of_the_same_name_is_refused():
    sure = emp.exact(emp.from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=False)), 2)
    env = emp.EmpowermentReward(gymnasium.make("FrozenLake-v1"), sure)
    with pytest.raises(
        ValueError, match=r"worth 0.\d+ nats where it starts, and the landscape says 1.7918"
    ):
        env.reset(seed=0)


class Redrawn(gymnasium.ObservationWrapper):
    """A lake that freezes over again at every reset, with holes elsewhere."""

    def observation(self, observation):
        return observation

    def reset(self, **options):
        inner = self.unwrapped
        inner.__init__(desc=["SFG"] if inner.desc[0, 1] == b"H" else ["SHG"], is_slippery=False)
        return super().reset(**options)


def test_tables_that_are_drawn_anew_are_read_anew():
    lake = gymnasium.make(
        "FrozenLake-v1", desc=["SFG"], is_slippery=False, disable_env_checker=True
    )
    env = EmpowermentReward(Redrawn(lake), 2)
    found = [env.reset(seed=0)[1]["empowerment"] for _ in range(4)]
    assert found[0] == found[2] < found[1] == found[3]


def test_nothing_is_divided_by_before_there_is_a_scale():
    scale = RunningScale()
    assert scale.apply(np.array([1.5]))[0] == 1.5
    scale.update(np.zeros(3))
    assert scale.apply(np.array([1.5]))[0] == 1.5
    scale.update(np.array([4.0]))
    assert scale.apply(np.array([1.5]))[0] == 0.75  # the root of the mean of 0, 0, 0 and 16 is 2


@pytest.mark.parametrize(
    "name", ["MiniGrid-DoorKey-6x6-v0", "MiniGrid-LavaCrossingS9N1-v0", "MiniGrid-Unlock-v0"]
)
def test_mini_grids_are_read_as_they_are(name):
    """The state beneath a live environment is the one that the exact world reaches by the same
    actions."""
    env, rng = gymnasium.make(name), np.random.default_rng(0)
    beneath = Beneath(env)
    for seed in range(3):
        env.reset(seed=seed)
        world, _ = beneath.begin()
        state = world.start
        for _ in range(60):
            action = rng.integers(7)
            if env.step(int(action))[2]:
                break
            state = world.step(state, action, 0)
            assert np.array_equal(beneath.state()[0], state)


def test_exact_empowerment_of_a_mini_grid_survives_resets():
    env = EmpowermentReward(gymnasium.make("MiniGrid-DoorKey-5x5-v0"), 2, mode="replace")
    first = [env.reset(seed=seed)[1]["empowerment"] for seed in (0, 1, 0)]
    assert first[0] == first[2]
    world = emp.from_gymnasium(env.env)
    assert first[2] == pytest.approx(emp.exact(world, 2, world.start).nats[0])


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("terminates", [False, True])
def test_the_vector_twin_agrees_with_the_single_wrapper(mode, terminates):
    single, value = EmpowermentReward(Ladder(terminates), Sum(), mode="shape", gamma=0.5), Sum()
    twin = EmpowermentVectorReward(
        SyncVectorEnv([lambda: Ladder(terminates)] * 2, autoreset_mode=mode),
        value,
        mode="shape",
        gamma=0.5,
    )
    for _ in range(2):
        _, expected = single.reset()
        if mode == AutoresetMode.DISABLED or value.calls == 0:
            _, info = twin.reset()
            assert info["empowerment"].tolist() == [expected["empowerment"]] * 2
        for _ in range(3):
            _, reward, over, cut, told = single.step(0)
            before = value.calls
            _, rewards, terminated, truncated, info = twin.step(np.zeros(2, int))
            assert value.calls == before + 1, "one call for all copies"
            assert rewards.tolist() == [reward] * 2
            assert (terminated.tolist(), truncated.tolist()) == ([over] * 2, [cut] * 2)
            assert info["empowerment"].tolist() == [told["empowerment"]] * 2
        if mode == AutoresetMode.NEXT_STEP:
            _, rewards, *_, info = twin.step(np.zeros(2, int))
            assert rewards.tolist() == [0, 0], "a reset is no step of the agent"
            assert info["empowerment"].tolist() == [2, 2]


def test_a_vector_environment_without_last_observations_is_named():
    class Forgetful(SyncVectorEnv):
        def step(self, actions):
            return *super().step(actions)[:4], {}

    copies = Forgetful([Ladder] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    twin = EmpowermentVectorReward(copies, Sum())
    twin.reset()
    with pytest.raises(
        ValueError, match=r"resets in the same step and gives no info\['final_obs'\]"
    ):
        [twin.step(np.zeros(2, int)) for _ in range(3)]


def test_a_picture_is_worked_out_once():
    value, seen = Sum(), np.zeros((3, 4, 4, 3), np.uint8)
    nats = _Seen(gymnasium.spaces.Box(0, 255, (4, 4, 3), np.uint8), value, "x")
    seen[1:] = 7
    assert nats(seen).tolist() == [0, 14, 14]
    assert nats(seen[::-1]).tolist() == [14, 14, 0]
    assert value.calls == 1
    seen[0, 0, 0, 0] = 9
    assert nats(seen).tolist() == [18, 14, 14]
    assert value.calls == 2


def test_normalisation_can_be_frozen():
    env = EmpowermentReward(Ladder(), Sum(), mode="replace", normalise=True)
    env.reset()
    assert env.step(0)[1] == 1  # 4 by the root of 4²
    assert env.step(0)[1] == pytest.approx(6 / np.sqrt((16 + 36) / 2))
    env.update_running_mean = False
    assert env.step(0)[1] == pytest.approx(8 / np.sqrt((16 + 36) / 2))
    assert env.running.count == 2
    assert RunningScale().apply(np.zeros(1)).tolist() == [0]


@pytest.mark.parametrize("value", [1, "run"])
def test_the_spec_makes_the_environment_again(value, monkeypatch):
    monkeypatch.setattr("empowerment.variational.training.load", lambda path: Sum())
    env = EmpowermentReward(lake(), value, scale=0.5, mode="shape", gamma=0.7, normalise=True)
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, EmpowermentReward)
    assert again.spec == env.spec
    assert again.spec.additional_wrappers[-1].kwargs == {
        "value": value, "scale": 0.5, "mode": "shape", "gamma": 0.7, "normalise": True
    }  # fmt: skip
    env.reset(seed=1), again.reset(seed=1)
    assert env.step(RIGHT)[:2] == again.step(RIGHT)[:2]


def test_an_estimator_in_the_spec():
    value = Sum()
    env = EmpowermentReward(gymnasium.make("CartPole-v1"), value)
    assert isinstance(gymnasium.make(env.spec), EmpowermentReward)


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.filterwarnings("ignore:.*A Box observation space")
@pytest.mark.parametrize(
    ("name", "value"),
    [("FrozenLake-v1", 2), ("MiniGrid-Empty-5x5-v0", 1), ("CartPole-v1", Sum()), ("Taxi-v4", 1)],
)
def test_wrapped_environments_pass_the_checker(name, value):
    check_env(EmpowermentReward(gymnasium.make(name), value), skip_render_check=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": "shap"}, "mode='shap' is unknown .did you mean 'shape'"),
        ({"gamma": 1.5}, "gamma=1.5"),
        ({"scale": np.nan}, "scale=nan"),
        ({"value": None}, "value is a NoneType"),
        ({"value": 0}, "horizon=0"),
        ({"value": "nowhere"}, "'nowhere' is not a run"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        EmpowermentReward(lake(), **{"value": 1, **arguments})


def test_exact_rewards_need_states():
    with pytest.raises(
        ValueError, match=r"'CartPole-v1' can be learned on but not enumerated.*emp.train"
    ):
        EmpowermentReward(gymnasium.make("CartPole-v1"), 2)
    with pytest.raises(ValueError, match="wrap each single environment"):
        EmpowermentVectorReward(SyncVectorEnv([lake]), 2)
    with pytest.raises(
        ValueError,
        match=r"^value is a NoneType; give a trained estimator or the directory of a run",
    ):
        EmpowermentVectorReward(SyncVectorEnv([lake]), None)
