"""Environments whose observations repeat become tables, and are then learned like any other."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import empowerment as emp
from empowerment.cli import main
from empowerment.variational import training
from empowerment.worlds import memory
from empowerment.worlds.environment import WorldEnv, WorldVectorEnv
from empowerment.worlds.learnable import HostWorld
from empowerment.worlds.memory import Memory, ObservedTable, explored

TINY = {
    "updates": 6,
    "batch": 32,
    "hidden": 12,
    "features": 10,
    "layers": 2,
    "ema": 0.0,
    "optimiser": "adam",
    "progress": False,
}
ROOM = "#####\n#a..#\n#.#.#\n#...#\n#####"


def opaque(world, copies=16, limit=30):
    return emp.from_gymnasium(WorldVectorEnv(copies, world, max_episode_steps=limit))


def frozen_lake(mode, **options):
    made = [lambda: gymnasium.make("FrozenLake-v1", **options)] * 8
    return HostWorld(SyncVectorEnv(made, autoreset_mode=mode), "lake")


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_table_is_what_the_environment_does(mode):
    found = explored(frozen_lake(mode, is_slippery=False), seed=0).world
    assert isinstance(found, ObservedTable)
    assert found.deterministic
    truth = emp.from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=False))
    alive = np.flatnonzero(~truth.terminal(np.arange(16)))
    place = found.index(np.eye(16, dtype=np.float32)[alive])
    assert (place >= 0).all(), "every state is met"
    assert not found.terminal(place).any()
    after = found.observations[found.successors[place, :, 0]].argmax(-1)
    assert np.array_equal(after, truth.successors[alive, :, 0])
    ends = found.terminal(found.successors[place, :, 0])
    assert np.array_equal(ends, truth.terminal(truth.successors[alive, :, 0]))
    ours, theirs = emp.exact(found, 4, states=place), emp.exact(truth, 4, states=alive)
    assert np.allclose(ours.nats, theirs.nats)


def test_randomness_is_read_off_the_counts(monkeypatch):
    monkeypatch.setattr(memory, "LEVELS", (2, 50, 400))
    monkeypatch.setattr(memory, "MANY", 400)
    world = emp.make(ROOM, slip=0.3)
    found = explored(opaque(world), seed=0).world
    assert isinstance(found, ObservedTable)
    assert found.outcomes > 1
    seen = world.observe(world.states())
    place = found.index(seen)
    truth = emp.exact(world, 1)
    error = emp.exact(found, 1, states=place).nats - truth.nats
    assert np.abs(error).max() < 0.05
    bare = emp.exact(emp.make(ROOM), 1)
    assert np.abs(bare.nats - truth.nats).max() > 0.3, "which says something"


class Toggle(gymnasium.Env):
    """A lamp that changes with every second press: what is seen does not tell the state."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._presses = 0
        return 0, {}

    def step(self, action):
        self._presses += int(action)
        return self._presses // 2 % 2, 0.0, False, False, {}


def test_observations_that_do_not_tell_the_state_make_no_table():
    env = emp.from_gymnasium(lambda: gymnasium.wrappers.TimeLimit(Toggle(), 50), copies=8)
    found = explored(env, seed=0)
    assert found.world is env
    assert found.steps > 0


def test_observations_that_hardly_repeat_make_no_table():
    env = emp.from_gymnasium(lambda: gymnasium.make("CartPole-v1"), copies=8)
    found = explored(env, seed=0)
    assert found.world is env
    assert found.steps <= memory.FIRST_STEPS + 8, "and that is known soon"


def test_worlds_whose_states_can_be_set_stay_as_they_are():
    world = emp.make(ROOM)
    assert explored(world, 0) == (world, 0)


def test_one_action_may_have_many_outcomes():
    numbers = Memory((1,), np.float32, actions=1)
    first = numbers.number(np.zeros((1, 1)))
    after = numbers.number(np.arange(1.0, 6.0)[:, None])
    for _ in range(1000):
        numbers.add(first.repeat(5), np.zeros(5, int), after)
        numbers.add(first, np.zeros(1, int), after[:1])
    world = numbers.world("star")
    odds = dict(zip(world.successors[0, 0].tolist(), world.odds[0, 0], strict=True))
    assert [odds[i] for i in after.tolist()] == pytest.approx([2 / 6, *[1 / 6] * 4], abs=0.01)
    assert world.terminal(after).all(), "nothing was tried there"


def test_an_action_that_was_never_tried_adds_nothing():
    numbers = Memory((1,), np.float32, actions=3)
    zero, one, two = numbers.number(np.arange(3.0)[:, None])
    numbers.add(np.array([zero, zero, one]), np.array([0, 1, 0]), np.array([one, two, two]))
    world = numbers.world("part")
    assert world.successors[zero, 2, 0] in (one, two)
    assert emp.exact(world, 1, states=np.array([zero])).nats[0] == pytest.approx(np.log(2))


def test_observations_are_found_by_what_they_show():
    numbers = Memory((1,), np.float32, actions=1)
    places = numbers.number(np.array([[1.0], [2.0], [2.0]]), np.array([False, True, False]))
    numbers.add(places[[0, 2]], np.zeros(2, int), places[[2, 1]])
    world = numbers.world("three")
    assert world.index([[2.0], [1.0], [7.0]]).tolist() == [places[2], places[0], -1]
    with pytest.raises(ValueError, match=r"give observations of shape \(n, 1\)"):
        world.index([1.0])


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHUNK", 3)
    estimator = emp.train(opaque(emp.make(ROOM)), 2, out=tmp_path / "run", **TINY)
    return estimator, tmp_path / "run"


def test_a_run_keeps_what_was_seen(run, capsys):
    estimator, path = run
    learned, loaded = estimator.landscape(), emp.load(path)
    assert len(learned) == 8
    assert np.array_equal(loaded.landscape().nats, learned.nats)
    truth = emp.exact(loaded.world, 2, states=loaded.world.states())
    assert sorted(truth.nats.round(9)) == sorted(emp.exact(emp.make(ROOM), 2).nats.round(9))
    main(["check", str(path), "--samples", "20"])
    assert "bound" in capsys.readouterr().out


def test_a_killed_run_resumes_to_the_same_result(run):
    _, path = run
    whole = (path / "checkpoints" / "00000006.safetensors").read_bytes()
    (path / "checkpoints" / "00000006.safetensors").unlink()
    emp.train(opaque(emp.make(ROOM)), 2, out=path, resume=True, **TINY)
    assert (path / "checkpoints" / "00000006.safetensors").read_bytes() == whole


def test_damaged_memory_is_named(run):
    _, path = run
    data = bytearray((path / "memory.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "memory.safetensors").write_bytes(bytes(data))
    with pytest.raises(ValueError, match=r"memory .* is damaged: its checksum"):
        emp.load(path)
    (path / "memory.safetensors").unlink()
    with pytest.raises(ValueError, match=r"memory .* is no file"):
        emp.load(path)


@pytest.mark.slow
def test_an_opaque_environment_is_learned_as_a_settable_one():
    world = emp.make("two-rooms")
    estimator = emp.train(opaque(world, 64, 200), 5, progress=False)
    states = estimator.world.index(world.observe(world.states()))
    fit = emp.compare(estimator.landscape(states=states), emp.exact(estimator.world, 5, states))
    assert fit.r2 > 0.99
    assert np.allclose(emp.exact(estimator.world, 5, states).nats, emp.exact(world, 5).nats)


def test_a_single_environment_of_ours_is_explored_too():
    env = emp.from_gymnasium(gymnasium.wrappers.TimeLimit(WorldEnv(emp.make(ROOM)), 30), learn=True)
    assert explored(env, 0).world.size == 8
