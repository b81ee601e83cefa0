"""Experience on the host: windows that never bridge a reset, and learning on real third-party
environments."""

import json

import gymnasium
import jax
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import empowerment as emp
from empowerment.cli import main
from empowerment.variational import collect, host, training
from empowerment.variational.config import make_config
from empowerment.variational.host import play
from empowerment.worlds.copies import Copies
from empowerment.worlds.learnable import HostWorld
from empowerment.worlds.world import Continuous, World

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
HORIZON = 3


class Counter(gymnasium.Env):
    """Shows which episode and which step of it this is, and the sum of its actions. Episodes last 4
    to 9 steps."""

    observation_space = gymnasium.spaces.Box(-1, 1e6, (3,))
    action_space = gymnasium.spaces.Discrete(3, start=5)

    def __init__(self, terminates=True, length=None):
        self._terminates, self._fixed, self._episode = terminates, length, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._episode, self._step, self._sum = self._episode + 1, 0, 0
        self._length = self._fixed or int(self.np_random.integers(4, 10))
        return self._show(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        assert self._step < self._length, "stepped after the end"
        self._step, self._sum = self._step + 1, self._sum + int(action) - 5
        over = self._step == self._length
        return self._show(), 0.0, over and self._terminates, over and not self._terminates, {}

    def _show(self):
        return np.array([self._episode, self._step, self._sum], np.float32)


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """Most of the time here goes into compiling programs that run for an instant."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def counters(mode, copies=5, **options):
    return HostWorld(
        SyncVectorEnv([lambda: Counter(**options)] * copies, autoreset_mode=mode), "counter"
    )


def uniform(frames, rows, *, key):
    return jax.random.randint(key, (len(rows), HORIZON), 0, 2), np.full(
        len(rows), -HORIZON * np.log(2)
    )


def windows(world, rounds=60, seed=0):
    rng = np.random.default_rng(seed)
    world.begin(seed)
    sizes, log_b = (world.copies, HORIZON), np.full(world.copies, -HORIZON * np.log(3))
    played = [host.play(world, rng.integers(3, size=sizes), log_b) for _ in range(rounds)]
    return host.Windows(*map(np.concatenate, zip(*played, strict=True)))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_windows_never_bridge_a_reset(mode):
    start, end, actions, *_ = windows(counters(mode))
    steps = (end - start)[:, 1].astype(int)
    assert (start[:, 0] == end[:, 0]).all(), "one episode"
    assert ((steps >= 1) & (steps <= HORIZON)).all()
    short = steps < HORIZON
    assert short.any(), "episodes that end inside a window are kept"
    assert (end[short, 1] >= 4).all(), "and only those are short"
    done = np.arange(HORIZON) < steps[:, None]
    assert np.array_equal((actions * done).sum(1), (end - start)[:, 2]), (
        "the actions are those that were played"
    )
    assert len({tuple(row) for row in start[:, :2]}) > 20, "windows start all over an episode"


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_windows_that_a_time_limit_cuts_off_are_dropped(mode):
    start, end, actions, *_ = windows(counters(mode, terminates=False))
    assert ((end - start)[:, 1] == HORIZON).all()
    assert (start[:, 0] == end[:, 0]).all()
    assert np.array_equal(actions.sum(1), (end - start)[:, 2])
    assert (end[:, 1] >= 4).any(), "a cut after the last action loses nothing"


def test_an_environment_that_is_always_cut_off_is_refused():
    world = counters(AutoresetMode.SAME_STEP, terminates=False, length=2)
    with pytest.raises(
        ValueError, match=r"'counter' was cut off before 3 actions.*max_episode_steps"
    ):
        emp.train(world, HORIZON, **TINY)


def test_recent_windows_replace_the_oldest():
    recent = host.ReplayBuffer(6)
    for i in range(4):
        part = np.full((2, 1), i)
        recent.add(host.Windows(part, part + 10, part, part[:, 0] - 5.0, part[:, 0] > 2))
    batch = host.spread(None, recent.draw(6, np.random.default_rng(0)))
    assert sorted(np.asarray(batch.actions)[:, 0].tolist()) == [1, 1, 2, 2, 3, 3]
    assert np.array_equal(batch.frames[batch.end], batch.frames[batch.start] + 10)
    assert np.array_equal(batch.log_b, batch.actions[:, 0] - 5.0), (
        "each keeps the probability it was drawn with"
    )


def test_each_window_is_learned_from_about_eight_times():
    world = counters(AutoresetMode.SAME_STEP, copies=4)
    own, played = host.StreamCollector(world, 64), []

    def choose(frames, rows, *, key):
        played.append(len(rows))
        return uniform(frames, rows, key=key)

    for i, most in enumerate([80, 12, 12]):
        played.clear()
        _, batch = own.collect((), choose, key=jax.random.key(i))
        assert len(batch.actions) == 64
        assert 64 // (8 if i else 1) <= sum(played) <= most


def test_the_same_key_gives_the_same_windows():
    def collected(seed):
        own = host.StreamCollector(emp.from_gymnasium(gymnasium.make("CartPole-v1"), copies=4), 16)
        return own.collect((), uniform, key=jax.random.key(seed))[1]

    one, two, other = (collected(seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one.frames, other.frames)


def test_cart_pole_resumes_and_loads(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "CHUNK", 3)
    world = emp.from_gymnasium(gymnasium.make("CartPole-v1"), copies=4)
    told = Told()
    est = emp.train(world, 1, out=tmp_path / "run", trackers=[told], **TINY)
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert [line["updates"] for line in lines] == [3, 6]
    assert all(np.isfinite(list(line.values())).all() for line in lines)
    assert told.calls == [("start", 6), ("log", 3), ("log", 6), ("finish",)]

    frames = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    loaded = emp.load(tmp_path / "run")
    assert np.array_equal(loaded.empowerment(frames), est.empowerment(frames))
    assert np.array_equal(est.landscape(states=frames).nats, est.empowerment(frames))
    with pytest.raises(ValueError, match="give world="):
        loaded.landscape()
    with pytest.raises(ValueError, match="'CartPole-v1' can be learned on but not enumerated"):
        est.landscape()
    for command in ("check", "act"):
        with pytest.raises(SystemExit) as stop:
            main([command, str(tmp_path / "run")])
        assert stop.value.code == 2
        assert "does not know its world" in capsys.readouterr().err

    for path in sorted((tmp_path / "run" / "checkpoints").glob("*"))[1:]:
        path.unlink()  # as if it had been interrupted after three updates
    resumed = emp.train(world, 1, out=tmp_path / "run", resume=True, **TINY)
    assert np.isfinite(resumed.empowerment(frames)).all()


class Told:
    """A tracker that remembers what it was told."""

    def __init__(self):
        self.calls = []

    def start(self, facts):
        self.calls.append(("start", facts["config"]["updates"]))

    def log(self, step, metrics):
        assert np.isfinite(metrics["bound"])
        self.calls.append(("log", step))

    def finish(self):
        self.calls.append(("finish",))


def test_trackers_are_finished_when_training_fails():
    told = Told()
    world = counters(AutoresetMode.SAME_STEP, terminates=False, length=2)
    with pytest.raises(ValueError, match="cut off"):
        emp.train(world, HORIZON, trackers=[told], **TINY)
    assert told.calls[-1] == ("finish",)


def test_tensor_board_is_written(tmp_path):
    pytest.importorskip("tensorboardX")
    from empowerment.variational.tracking import TensorBoard

    board = TensorBoard(tmp_path)
    board.start({"config": {"horizon": 2}})
    board.log(3, {"bound": 1.5})
    board.finish()
    (written,) = tmp_path.glob("events.out.tfevents.*")
    assert b"bound" in written.read_bytes()


@pytest.mark.slow
def test_what_is_learned_on_the_host_is_exact_empowerment():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    exact, cells = (
        emp.exact(emp.from_gymnasium(env), 2),
        np.flatnonzero(~np.isin(np.arange(16), (5, 7, 11, 12, 15))),
    )
    world = emp.from_gymnasium(env, learn=True, copies=16)
    est = emp.train(world, 2, updates=2000, batch=512, hidden=64, progress=False)
    error = est.empowerment(np.eye(16, dtype=np.float32)[cells]) - exact.nats[cells]
    assert np.abs(error).max() < 0.1
    assert 1 - error.var() / exact.nats[cells].var() > 0.9


@pytest.mark.parametrize("limits", [(10, 1000), (10, 20)], ids=["table with pictures", "host"])
def test_mini_grids_beyond_the_table(limits, monkeypatch):
    monkeypatch.setattr(collect, "LARGEST_TABLE", limits[0])
    monkeypatch.setattr(collect, "LARGEST_HOST_TABLE", limits[1])
    monkeypatch.setattr(collect, "HOST_ROLLOUTS", 16)
    env = gymnasium.make("MiniGrid-Empty-5x5-v0")
    env.reset(seed=0)
    world = emp.from_gymnasium(env)
    run = training.prepare(world, make_config(world, 2, {"batch": 32}))
    assert run.collector.on_host == (limits[1] == 20)
    est = emp.train(world, 1, **TINY)
    assert np.isfinite(est.landscape().nats).all()


def test_settings_that_move_agents_do_not_apply():
    with pytest.raises(ValueError, match=r"outcomes=2 is for stochastic worlds"):
        emp.train(counters(AutoresetMode.SAME_STEP), HORIZON, outcomes=2, **TINY)


class Line(World):
    """Steps to the right, with an end at 2."""

    name, actions, outcomes, on_host, start = "line", ("x",), None, True, np.float32(0)
    continuous = Continuous(1)

    def step(self, state, action, outcome):
        return np.where(state < 2, state + 1, state)

    def observe(self, state):
        return np.asarray(state, np.float32)[..., None]

    def states(self):
        return np.zeros(1, np.float32)

    def terminal(self, state):
        return np.asarray(state) >= 2

    def scatter(self, count, rng):
        return np.arange(count, dtype=np.float32)

    def draw_outcome(self, state, action, rng):
        return None


@pytest.mark.parametrize("breaks", [False, True])
def test_an_end_is_no_failure_unless_it_is_said_to_be(breaks):
    line = Line()
    line.terminal_is_failure = breaks
    copies = Copies(line, 2, 0.0)
    copies.begin(0)
    windows = play(copies, np.zeros((2, 3, 1)), np.zeros(2))
    assert windows.end[:, 0].tolist() == ([] if breaks else [2.0, 2.0])
