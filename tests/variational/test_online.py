"""An estimator that learns while it pays."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import empowerment as emp

SMALL = {
    "updates": 150,
    "batch": 128,
    "hidden": 16,
    "features": 10,
    "layers": 2,
    "optimiser": "adam",
    "learning_rate": 0.02,
}


class Fork(gymnasium.Env):
    """From 0 the two actions lead to 1 and 2; from there both lead back. One action decides
    something only at 0."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(3))
        return self.state, {}

    def step(self, action):
        self.state = int(1 + action) if self.state == 0 else 0
        return self.state, 0.0, False, False, {}


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """Most of the time here goes into compiling programs that run for an instant."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def test_the_reward_becomes_empowerment_while_the_agent_acts():
    online = emp.Online(emp.from_gymnasium(Fork, copies=8), horizon=1, every=4, **SMALL)
    env = emp.EmpowermentReward(Fork(), online, mode="replace")
    truth, errors = {0: np.log(2), 1: 0.0, 2: 0.0}, []
    env.reset(seed=0)
    for step in range(700):
        seen, reward, *_ = env.step(step % 2)
        errors.append(abs(reward - truth[seen]))
    assert online.updates == 150, (
        "701 observations, one update for each four, and no more than it has"
    )
    assert np.mean(errors[:20]) > 0.15
    assert np.mean(errors[-50:]) < 0.05
    fixed = online.empowerment(np.eye(3, dtype=np.float32))
    online.learn(1000)
    assert np.array_equal(online.empowerment(np.eye(3, dtype=np.float32)), fixed), (
        "fixed from then on"
    )


def test_looking_at_it_teaches_it_nothing():
    online = emp.Online(
        emp.from_transitions([[1, 2], [0, 0], [0, 0]]), horizon=1, every=10, **SMALL
    )
    before = online.landscape().nats
    online.learn(9)
    assert online.updates == 0
    assert np.array_equal(online.landscape().nats, before)
    online.learn(21)
    assert online.updates == 3
    assert not np.array_equal(online.landscape().nats, before)


def test_what_does_not_fit():
    ring = emp.from_transitions([[1, 2], [0, 0], [0, 0]])
    with pytest.raises(ValueError, match="every=0"):
        emp.Online(ring, 1, every=0)
    with pytest.raises(ValueError, match="'bach' is unknown"):
        emp.Online(ring, 1, bach=3)
