"""Where windows (x, a_1..a_K, x') come from in an environment that runs on the host and cannot be
put into a state.

Copies of the environment play windows side by side. An episode that ends inside a window ends it:
where it terminated, what was seen last is x', since terminal states absorb, as in the exact
channel; where it was cut off by a time limit, the window is dropped. The rest of that window's
actions are played and forgotten, so that all copies stay in step and no window bridges a reset.

Acting is slow on the host, so each window is learned from about `REUSE` times. Mini-batches come
from the last `KEPT` batches of windows and no further back, since the decoder has to fit the source
that acts now: a window is at most `REUSE * KEPT` updates old, about one in a hundred of a default
run.

Where several processes learn together, each one steps copies of its own and draws its own share of
every batch.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Key

from ..worlds.copies import Copies
from ..worlds.learnable import HostWorld
from .collect import Batch, Draw
from .devices import SHARDED, from_leader, local, shardings
from .learner import Learner, State

REUSE = 8
KEPT = 4
FRUITLESS = 200
"""Windows that every copy may lose in a row before the environment is refused."""
SAMPLE = 256  # observations that the representation's centre and scale are taken from


class Windows(NamedTuple):
    """Windows on the host."""

    start: np.ndarray
    end: np.ndarray
    actions: np.ndarray
    log_b: np.ndarray
    ended: np.ndarray
    """Whether the episode is over at x'."""


class ReplayBuffer:
    """The last `size` windows."""

    def __init__(self, size: int):
        self._size, self._kept, self._next = size, None, 0
        self.count = 0

    def add(self, new: Windows) -> None:
        if self._kept is None:
            self._kept = Windows(*(np.zeros((self._size, *x.shape[1:]), x.dtype) for x in new))
        rows = (self._next + np.arange(len(new.actions))) % self._size
        for kept, x in zip(self._kept, new, strict=True):
            kept[rows] = x
        self._next = (self._next + len(rows)) % self._size
        self.count = min(self.count + len(rows), self._size)

    def draw(self, count: int, rng: np.random.Generator) -> Windows:
        """A mini-batch; none twice if there are enough."""
        assert self._kept is not None
        rows = rng.choice(self.count, count, replace=self.count < count)
        return Windows(*(x[rows] for x in self._kept))


class StreamCollector:
    """Copies of an environment, and the windows they played last. Nothing of it is kept in
    checkpoints: a run that is taken up again resets the environment and collects a whole batch
    first."""

    on_host = True
    tabulated = False
    outcomes = 1
    placement = ()

    def __init__(self, world: HostWorld | Copies, batch: int, mesh: Mesh | None = None):
        self._world, self._batch, self.mesh = world, batch // jax.process_count(), mesh
        self._buffer: ReplayBuffer | None = None
        self.dropped = 0
        """Windows that were cut off or whose simulation diverged."""
        self._steps = 0

    def init(self, key: Key[Array, ""]) -> tuple[()]:
        """Nothing: agents are where their environments are."""
        return ()

    def steps_taken(self, updates: int, horizon: int) -> int:
        """Steps of all copies together since this process began."""
        return self._steps

    def sample_frames(self, key: Key[Array, ""]) -> Any:
        """Observations of copies that acted at random, for the representation's centre and
        scale."""
        rng, world = generator(_own(key)), self._world
        world.begin(int(rng.integers(2**31)))
        seen = [world.seen]
        while sum(map(len, seen)) < SAMPLE:
            world.move(world.draw_actions((world.copies,), rng))
            seen.append(world.seen)
        return jnp.asarray(from_leader(np.concatenate(seen)))

    def collect(
        self, agents: tuple[()], choose: Draw, *, key: Key[Array, ""]
    ) -> tuple[tuple[()], Batch]:
        """Play some windows with the present source, then draw a mini-batch of recent ones."""
        key, seed = jax.random.split(_own(key))
        rng = generator(seed)
        if self._buffer is None:
            self._buffer = ReplayBuffer(KEPT * self._batch)
            self._world.begin(int(rng.integers(2**31)))
        wanted = -(-self._batch // (REUSE if self._buffer.count else 1))
        found, fruitless = 0, 0
        while found < wanted:
            key, now = jax.random.split(key)
            self._world.restart_some()
            actions, log_b = map(
                np.asarray, choose(self._world.seen, np.arange(self._world.copies), key=now)
            )
            windows = play(self._world, actions, log_b)
            self._steps += actions.shape[0] * actions.shape[1]
            self._buffer.add(windows)
            self.dropped += len(actions) - len(windows.actions)
            found, fruitless = (
                found + len(windows.actions),
                0 if len(windows.actions) else fruitless + 1,
            )
            if fruitless == FRUITLESS:
                raise ValueError(
                    f"environment {self._world.name!r} was cut off before {actions.shape[1]} "
                    "actions in "
                    f"{fruitless} windows; give a smaller horizon, or a longer time limit "
                    "(max_episode_steps)"
                )
        return agents, spread(self.mesh, self._buffer.draw(self._batch, rng))

    def feedback(self, agents: tuple[()], errors: Float[Array, "n"]) -> tuple[()]:
        """Nothing is done with the errors: an environment cannot be put back to where they were
        large."""
        return agents


class Compiled:
    """A learner whose two halves are compiled one by one, for a loop that runs on the host: each
    process chooses for its own copies, and all of them update together."""

    def __init__(self, learner: Learner):
        self.config, self.init, self.mesh = learner.config, learner.init, learner.mesh
        self._choose, self.update = (
            jax.jit(learner._replace(mesh=None).choose),
            jax.jit(learner.update),
        )

    def choose(
        self, state: State, frames: Any, rows: Any, *, key: Key[Array, ""]
    ) -> tuple[Array, Array]:
        return self._choose(local(state), frames, rows, key=key)


def spread(mesh: Mesh | None, windows: Windows) -> Batch:
    """This process's windows as a part of the batch of all, divided among its devices."""
    devices, count = (1 if mesh is None else jax.local_device_count()), len(windows.actions)
    halves = [x.reshape(devices, count // devices, *x.shape[1:]) for x in windows[:2]]
    index = np.tile(np.arange(count // devices, dtype=np.int32), devices)
    frames = np.concatenate(halves, axis=1).reshape(2 * count, *windows.start.shape[1:])
    ends = index + np.int32(count // devices)
    parts = frames, index, ends, windows.actions, windows.log_b, windows.ended

    def placed(x: np.ndarray) -> Array:
        return (
            jnp.asarray(x)
            if mesh is None
            else jax.make_array_from_process_local_data(shardings(mesh, SHARDED), x)
        )

    *others, log_b, ended = map(placed, parts)
    return Batch(*others, log_b=log_b, ended=ended)


def play(world: HostWorld | Copies, actions: np.ndarray, log_b: np.ndarray) -> Windows:
    """One window in every copy; those that were asleep or cut off are left out."""
    start, end = world.seen, world.seen.copy()
    running = ~world.needs_reset
    good, ended = running.copy(), np.zeros(len(running), bool)
    for k in range(actions.shape[1]):
        moved = world.move(actions[:, k])
        end[running] = moved.end[running]
        ended |= running & moved.terminated
        cut = running & moved.truncated & ~moved.terminated
        if k + 1 < actions.shape[1]:
            good &= ~cut
        good &= ~np.asarray(moved.broken)
        running &= ~(moved.terminated | moved.truncated)
    return Windows(start[good], end[good], actions[good], log_b[good], ended[good])


def _own(key: Key[Array, ""]) -> Key[Array, ""]:
    """A key of this process; a single one has it as it is."""
    key = jax.random.wrap_key_data(local(jax.random.key_data(key)))
    return key if jax.process_count() == 1 else jax.random.fold_in(key, jax.process_index())


def generator(key: Key[Array, ""]) -> np.random.Generator:
    """NumPy's generator for a JAX key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))
