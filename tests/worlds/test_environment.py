import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import empowerment
from empowerment.worlds.environment import WorldVectorEnv
from empowerment.worlds.registration import environment_id


@pytest.mark.parametrize("name", empowerment.worlds())
def test_every_world_passes_the_checker(name):
    # Forces that are bounded in power only have no bounds that the checker likes.
    options = {"power": None} if name in ("point-mass", "pendulum") else {}
    env = gymnasium.make(environment_id(name), render_mode="rgb_array", **options)
    check_env(env.unwrapped)
    env.reset(seed=0)
    picture = env.render()
    assert picture.dtype == np.uint8
    assert min(picture.shape[:2]) >= 16
    env.close()


def run(env, seed, steps=30):
    rng = np.random.default_rng(5)
    seen = [env.reset(seed=seed, options={"start": "anywhere"})[0]]
    seen += [env.step(rng.integers(5))[0] for _ in range(steps)]
    return np.stack(seen)


def test_a_seed_gives_the_same_episode():
    env = gymnasium.make("empowerment/TwoRooms-v0", slip=0.3)
    assert np.array_equal(run(env, 1), run(env, 1))
    assert not np.array_equal(run(env, 1), run(env, 2))


@pytest.mark.parametrize("name", ["two-rooms", "key-door", "tree"])
def test_the_vector_form_steps_as_single_environments_do(name):
    vector = gymnasium.make_vec(
        environment_id(name), num_envs=3, vectorization_mode="vector_entry_point"
    )
    singles = [gymnasium.make(environment_id(name)) for _ in range(3)]
    rng = np.random.default_rng(0)
    seen, _ = vector.reset(seed=0)
    for env, row in zip(singles, seen, strict=True):
        assert np.array_equal(env.reset()[0], row)
    for _ in range(20):
        actions = rng.integers(vector.single_action_space.n, size=3)
        seen, _, terminated, truncated, _ = vector.step(actions)
        assert seen.shape == vector.observation_space.shape
        assert not (terminated | truncated).any()
        for env, action, row in zip(singles, actions, seen, strict=True):
            assert np.array_equal(env.step(action)[0], row)


def test_the_vector_form_restarts_the_dead_and_the_old():
    lava = WorldVectorEnv(2, "lava-corridor")
    first, _ = lava.reset(seed=0)
    ended = np.zeros(2, bool)
    for _ in range(40):
        observation, _, terminated, _, _ = lava.step(np.array([4, 4]))
        if ended.any():
            assert np.array_equal(observation[ended], first[ended])
            break
        ended = terminated
    assert ended.any()
    short = WorldVectorEnv(2, "two-rooms", max_episode_steps=3)
    short.reset(seed=0)
    truncations = [short.step(np.array([0, 1]))[3].tolist() for _ in range(8)]
    assert truncations == [[i % 4 == 2] * 2 for i in range(8)]


def test_the_vector_form_draws_chance_with_its_probability():
    env = WorldVectorEnv(4000, "open-room", slip=0.4)
    before, _ = env.reset(seed=0)
    after = env.step(np.full(4000, 4))[0]
    still = (before == after).all(axis=(1, 2, 3)).mean()
    assert abs(still - 0.6) < 5 * np.sqrt(0.24 / 4000)


@pytest.mark.parametrize("action", [9, -1, "up"])
def test_bad_actions_are_refused(action):
    env = gymnasium.make("empowerment/TwoRooms-v0").unwrapped
    env.reset()
    with pytest.raises(ValueError, match="action"):
        env.step(action)
    vector = WorldVectorEnv(2, "two-rooms")
    vector.reset()
    with pytest.raises(ValueError, match="actions"):
        vector.step(np.array([0, 7]))
