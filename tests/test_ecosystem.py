"""Real third-party environments: the learner trains for a short while, and stays below exact values
where there are."""

import gymnasium
import jax
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import pytest
from gymnasium.wrappers import GrayscaleObservation, ResizeObservation
from minigrid.wrappers import FullyObsWrapper, ImgObsWrapper, RGBImgObsWrapper

import empowerment as emp
from empowerment.worlds.world import take

SHORT = {
    "updates": 20,
    "batch": 64,
    "hidden": 16,
    "features": 12,
    "layers": 2,
    "ema": 0.0,
    "optimiser": "adam",
    "progress": False,
}


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """Most of the time here goes into compiling programs that run for an instant."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def cells(name):
    return ImgObsWrapper(FullyObsWrapper(gymnasium.make(name)))


def pixels(name):
    return ImgObsWrapper(RGBImgObsWrapper(gymnasium.make(name), tile_size=3))


def atari(name):
    ale = pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    gymnasium.register_envs(ale)
    return ResizeObservation(GrayscaleObservation(gymnasium.make(name), keep_dim=True), (42, 42))


class Last:
    """A tracker that keeps the last metrics."""

    def start(self, facts): ...

    def log(self, step, metrics):
        self.metrics = metrics

    def finish(self): ...


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (pixels, "MiniGrid-Empty-5x5-v0"),
        (pixels, "MiniGrid-DoorKey-5x5-v0"),
        (cells, "MiniGrid-LavaCrossingS9N1-v0"),
        (gymnasium.make, "FrozenLake-v1"),
        (gymnasium.make, "Taxi-v4"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_enumerable_environments_are_compared_with_exact_values(make, name):
    env, last = make(name), Last()
    env.reset(seed=0)
    world = emp.from_gymnasium(env)
    states = take(world.states(), slice(0, 6))
    exact = emp.exact(world, 2, states)
    est = emp.train(world, 2, trackers=[last], **SHORT)
    bound = est.bound(states=states, samples=200)
    assert np.isfinite(last.metrics["bound"])
    assert (bound.nats <= exact.nats + 5 * bound.error + 1e-6).all(), "a lower bound"
    assert np.isfinite(emp.compare(est.landscape(states=states), exact).rms)
    if (
        make is not gymnasium.make
    ):  # what was learned on the exact world fits the agent's own observations
        told = emp.EmpowermentReward(env, est, mode="info").reset(seed=0)[1]["empowerment"]
        assert told == pytest.approx(est.empowerment(world.observe(world.start[None]))[0], abs=1e-5)


@pytest.mark.parametrize(
    ("make", "name"),
    [(gymnasium.make, "CartPole-v1"), (gymnasium.make, "Pendulum-v1"), (atari, "ALE/Freeway-v5")],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_other_environments_are_learned_on(make, name):
    make(name).close()  # or skip
    last, world = Last(), emp.from_gymnasium(lambda: make(name), learn=True, copies=4)
    est = emp.train(world, 2, trackers=[last], **SHORT | {"updates": 5})
    assert world.name == name
    assert np.isfinite(last.metrics["bound"])
    assert np.isfinite(est.empowerment(world.seen)).all()
    world.close()


def test_an_atari_game_as_it_is_says_what_to_wrap():
    ale = pytest.importorskip("ale_py")
    gymnasium.register_envs(ale)
    with pytest.raises(
        ValueError,
        match=r"\(210, 160, 3\); wrap it in .*GrayscaleObservation.* and ResizeObservation",
    ):
        emp.from_gymnasium(gymnasium.make("ALE/Freeway-v5"))
