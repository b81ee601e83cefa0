"""Where windows (x, a_1..a_K, x') come from: agents that act in a world on the device.

Many agents play in parallel. At each update every agent plays `windows` windows one after the other, so that x' of
one is x of the next and each frame is encoded once. Between updates, and only then, agents are moved: the dead and
some others start anew, and many go back to where the last windows started, the likelier the larger the error was there
(rare places such as doorways would else be learned last). In grid worlds too large to tabulate nearly all start anew
before every update, and a few walk on as greedy agents would, so that what these come to is learned. Where chance
decides, noise would hide where errors are: in tables all start anew, and every sequence is played several times. No
window bridges a move. Inside a window the dead stay dead, as in the exact channel.

Each device acts and observes for its own share of the agents. Where windows started and how large their errors were is
known everywhere, since an agent may go back to where any other was.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from ..reach import closure
from ..worlds.table import TableWorld
from ..worlds.world import State, World, blocks, identify, leaves, stack, take
from .acting import act, draw_chance
from .devices import SHARED, SPREAD, constrain, gather_rows, on_each
from .pictures import Distinct, Mosaic, distinct, mosaic
from .sequence import actions_of
from .settings import Config

LARGEST_TABLE = 1024
"""Worlds of at most so many states are tabulated: a step is then a look-up, and each frame is encoded once."""
LARGEST_HOST_TABLE = 2**15
"""Worlds that run on the host are tabulated up to here: a look-up on the device is far quicker than their step."""

STAYING, SPREADING, LEAVING = (0.1, 0.6), (0.5, 0.2), (1.0, 0.0)
"""How often agents start anew and go back to errors. In a world that is large, or changes for good, going back would
narrow down what is seen."""
SEVERAL = 16
"""How often a sequence is played where chance decides: what is still to be learned late is smaller than the noise."""
IN_A_ROW = 4
"""Windows that an agent plays in a row where it does not start anew before every update."""
STROLLERS, HOST_STROLLERS, STROLL = 8192, 1024, 40
"""Agents, fewer where the world runs on the host, and steps of the random play that further starts come from."""
SAMPLE, LARGEST_SAMPLE = 256, 2**26
"""Observations that the representation's centre and scale are taken from, and how many bytes they take at most."""
LARGEST_STROLL = 2**31
"""Bytes of the states and observations of random play; in larger worlds fewer agents play."""
LARGEST_FRAMES = 2**30
"""Bytes of all frames of a tabulated world; where they would take more, it is learned without a table."""
SIMPLER = 0.5
"""Share of the updates before states with everything moved about are started from: what moves is to be seen first."""
USUAL, FREAK = 0.05, 0.001
"""A number of changes is unusual that at most this share of windows have; fewer than that share count for less."""
WALKING, STRAYING, WEARY = 8, 0.2, 0.02
"""Every how many agents one walks greedily; how often it takes any action instead, and how often it starts anew."""


class Batch(NamedTuple):
    """Windows, with each distinct frame once. Every device has its share of the frames and of the windows on them, and
    numbers its frames from zero."""

    frames: Shaped[Array, "frames *shape"] | Distinct | Mosaic
    start: Int[Array, "n"]
    """Which frame is x."""
    end: Int[Array, "_"]
    """Which frame is x'; where a sequence was played several times from its start, all of its ends stand together."""
    actions: Shaped[Array, "n steps ..."]
    value: Float[Array, "n"] | None = None
    """Empowerment of the starts in nats, where a model told it."""
    log_q: Float[Array, "n"] | None = None
    """ln q of each sequence by a steadier decoder, its mean over the ends, where the source is fitted to that."""
    log_b: Float[Array, "n"] | None = None
    """ln b(a|x), the log-probability with which each sequence was drawn, where ψ is fitted by it."""


Chooser = Callable[..., Any]
"""`choose(frames, rows, key=)` draws one sequence for each row of the frames; returns them with ln b of each."""


@runtime_checkable
class Mind(Protocol):
    """What agents go by."""

    def __call__(self, frames: Any, rows: Any, *, key: Key[Array, ""]) -> Any:
        """One sequence for each row of the frames, and the log-probability with which it was drawn."""
        ...

    def value(self, frames: Any, rows: Any) -> Float[Array, "n"]:
        """How empowered an agent is that sees each row of the frames, up to what is the same for all."""
        ...

    def done(self) -> Any:
        """Share of the updates that were made."""
        ...


class Agents(NamedTuple):
    """Where the agents are, and where the last windows started."""

    states: State
    visited: State
    """Starts of the last update's windows: every agent's first, then every agent's second, and so on."""
    errors: Float[Array, "n"]
    """|β ln q - ln h - ψ| of those windows."""


class Experience(NamedTuple):
    """Agents acting in a world on the device."""

    world: World
    frames: Any
    """All frames of a tabulated world, or None."""
    starts: State
    agents: int
    windows: int
    restart: float
    revisit: float
    mesh: Mesh | None = None
    """Devices that agents are spread over."""
    simpler: int | None = None
    """So many of the starts are the only ones at first."""
    walks: bool = False
    """Whether some agents walk as greedy ones would."""
    ends: int = 1
    """How often each sequence is played from its start; an agent goes on from the first end."""
    pieces: Mosaic | None = None
    """All frames as the patches that they are made of, if these are few."""

    placement = Agents(SPREAD, SHARED, SHARED)  # pyright: ignore[reportArgumentType]
    """What of the agents is divided among the devices."""

    @property
    def pictured(self) -> bool:
        """Whether agents see pictures of a world on the device, of which many are the same."""
        return not self.on_host and len(np.shape(self.world.observe(self.world.start))) == 3

    @property
    def on_host(self) -> bool:
        """Whether agents act on the host, outside of the compiled loop."""
        return self.world.on_host

    def init(self, key: Key[Array, ""]) -> Agents:
        """The agents' first states; every start is as good as any other."""
        states = self._fresh(0.0, key=key)
        visited = jax.tree.map(lambda x: jnp.concatenate([x] * self.windows), states)
        return Agents(states, visited, jnp.ones(self.agents * self.windows))

    def collect(self, agents: Agents, mind: Mind, *, key: Key[Array, ""]) -> tuple[Agents, Batch]:
        """Let every agent act, as its mind says."""
        move_key, key = jax.random.split(key)
        states = self._move(agents, mind, key=move_key)
        visited, chosen, log_b, reached = [states], [], [], []
        for window_key in jax.random.split(key, self.windows):
            choose_key, act_key = jax.random.split(window_key)
            frames, rows = on_each(self.mesh, self._look)(states)
            drawn, probability = mind(frames, rows, key=choose_key)
            chosen.append(drawn)
            log_b.append(probability)
            again, actions = jax.tree.map(lambda x: jnp.repeat(x, self.ends, axis=0), (states, chosen[-1]))
            reached.append(constrain(self.mesh, act(self.world, again, actions, self.ends, key=act_key), SPREAD))
            states = constrain(self.mesh, jax.tree.map(self._first, reached[-1]), SPREAD)
            visited.append(states)
        starts = on_each(self.mesh, self._everyones, outputs=SHARED)(visited[:-1])
        batch = on_each(self.mesh, self._batch)(visited, chosen, log_b, reached)
        return Agents(states, starts, agents.errors), batch

    def _first(self, reached: Any) -> Array:
        """Of each sequence's ends the first, in JAX's types as after a resumption: a host's may be wider."""
        return jnp.asarray(reached.reshape(self.agents, self.ends, *reached.shape[1:])[:, 0])

    def learned(self, agents: Agents, errors: Float[Array, "n"]) -> Agents:
        """Remember how large the error was at each window's start; they come device by device."""
        if self.mesh is None:
            return agents._replace(errors=errors)
        ordered = errors.reshape(self.mesh.size, self.windows, -1).swapaxes(0, 1).reshape(-1)
        return agents._replace(errors=constrain(self.mesh, ordered, SHARED))

    def _move(self, agents: Agents, mind: Mind, *, key: Key[Array, ""]) -> State:
        """Send some agents back to where errors were large, and the dead and some others to a new start."""
        place_key, revisit_key, restart_key, fresh_key, walk_key = jax.random.split(key, 5)
        levels = jnp.cumsum(agents.errors**2)
        draws = jax.random.uniform(place_key, (self.agents,)) * levels[-1]
        back = take(agents.visited, jnp.searchsorted(levels, draws).clip(0, len(levels) - 1))
        states = _choose(jax.random.uniform(revisit_key, (self.agents,)) < self.revisit, back, agents.states)
        again = self.world.terminal(states) | (jax.random.uniform(restart_key, (self.agents,)) < self.restart)
        fresh = self._fresh(mind.done(), key=fresh_key)
        states = _choose(again, fresh, states)
        if self.walks:
            walked = self._walk(agents, fresh, mind, key=walk_key)
            states = jax.tree.map(lambda all, some: all.at[::WALKING].set(some), states, walked)
        return constrain(self.mesh, states, SPREAD)

    def _walk(self, agents: Agents, fresh: State, mind: Mind, *, key: Key[Array, ""]) -> State:
        """Every so many agents, one step on from where their last window started: mostly by the action that led to the
        best state in one draw of chance for each; the dead and the weary start anew."""
        look_key, stray_key, any_key, weary_key, step_key = jax.random.split(key, 5)
        here = jax.tree.map(lambda x: x[: self.agents : WALKING], agents.visited)
        walkers, actions = len(leaves(here)[0]), len(self.world.actions)
        each = jax.tree.map(lambda x: jnp.repeat(x, actions, axis=0), here)
        action = jnp.tile(jnp.arange(actions), walkers)
        following = self.world.step(each, action, draw_chance(self.world, each, action, key=look_key))
        room = 0 if self.mesh is None else -len(action) % self.mesh.size  # every device has as many
        padded = jax.tree.map(lambda x: jnp.pad(x, [(0, room)] + [(0, 0)] * (x.ndim - 1)), following)
        values = mind.value(*on_each(self.mesh, self._look)(padded))[: len(action)].reshape(walkers, actions)
        strays = jax.random.uniform(stray_key, (walkers,)) < STRAYING
        taken = jnp.where(strays, jax.random.randint(any_key, (walkers,), 0, actions), values.argmax(-1))
        # Chance is drawn anew: an agent does not know it when it chooses.
        there = self.world.step(here, taken, draw_chance(self.world, here, taken, key=step_key))
        again = self.world.terminal(there) | (jax.random.uniform(weary_key, (walkers,)) < WEARY)
        return _choose(again, jax.tree.map(lambda x: x[::WALKING], fresh), there)

    def _everyones(self, visited: list[State]) -> State:
        """On each device: the states of all devices, one list entry after the other."""

        def one(*parts: Any) -> Any:
            whole = gather_rows(self.mesh, jnp.stack(parts), axis=1)
            return whole.reshape(len(parts) * whole.shape[1], *whole.shape[2:])

        return jax.tree.map(one, *visited)

    def steps_taken(self, updates: int, horizon: int) -> int:
        """Steps of the world in so many updates."""
        return updates * horizon * self.agents * self.windows * self.ends

    def sample_frames(self, key: Key[Array, ""]) -> Any:
        """Observations of agents that acted at random, for the representation's centre and scale."""
        if self.frames is not None:
            return self.frames
        count = max(min(max(self.agents, SAMPLE), LARGEST_SAMPLE // frame_bytes(self.world)), 2)
        fresh_key, draw_key, act_key = jax.random.split(key, 3)
        actions = actions_of(self.world).uniform((count, 10), draw_key)
        agents = act(self.world, self._fresh(1.0, count, key=fresh_key), actions, key=act_key)
        return jnp.asarray(self.world.observe(agents))

    def _fresh(self, done: Any, agents: int | None = None, *, key: Key[Array, ""]) -> State:
        count = len(leaves(self.starts)[0])
        most = count if self.simpler is None else jnp.where(done < SIMPLER, self.simpler, count)
        pick = jax.random.randint(key, (agents or self.agents,), 0, most)
        return take(jax.tree.map(jnp.asarray, self.starts), pick)

    def _all(self) -> Any:
        """All frames of a tabulated world, as they are encoded."""
        return self.frames if self.pieces is None else self.pieces

    def _look(self, states: State) -> tuple[Any, Any]:
        """Frames of one device's agents, and which of them each agent sees."""
        if self.frames is not None:
            return self._all(), states
        if self.pictured:
            order, count, rows = distinct(states)
            return Distinct(jnp.asarray(self.world.observe(take(states, order))), count), rows
        frames = jnp.asarray(self.world.observe(states))
        return frames, jnp.arange(len(frames))

    def _batch(self, visited: list[State], chosen: list[Any], log_b: list[Any], reached: list[State]) -> Batch:
        """One device's windows."""
        actions, probability = jnp.concatenate(chosen), jnp.concatenate(log_b)
        if self.frames is not None:
            starts, ends = jnp.concatenate(visited[:-1]), jnp.concatenate(reached)
            return Batch(self._all(), starts, ends, actions, log_b=probability)
        # The only end of a window is the start of the next, and seen once.
        seen, first = (visited, len(chosen[0])) if self.ends == 1 else (visited[:-1] + reached, len(actions))
        frames, rows = self._look(jax.tree.map(lambda *x: jnp.concatenate(x), *seen))
        ends = rows[first : first + len(actions) * self.ends]
        return Batch(frames, rows[: len(actions)], ends, actions, log_b=probability)


class PicturedTable(TableWorld):
    """A table whose states are seen as the pictures of the world that it was made from."""

    def __init__(self, table: TableWorld, frames: np.ndarray):
        super().__init__(
            table.successors, table.odds, table.name, table.actions, terminals=table.terminal(np.arange(table.size))
        )
        self._frames = frames

    def observe(self, state: Any) -> Any:
        return jnp.asarray(self._frames)[state]


def experience(world: World, config: Config, mesh: Mesh | None = None) -> Experience:
    """The experience of `config.batch` windows an update; small worlds are tabulated first."""
    table = tabulate(world, LARGEST_HOST_TABLE if world.on_host else LARGEST_TABLE)
    simpler, usual, walks = None, SPREADING, False
    if table is not None:
        small, frames, own = table
        alive = living(small)
        # Where keys are taken and doors opened for good, what comes before must be met as often as what comes after.
        changing = len(own) < len(alive)
        starts = np.concatenate([np.resize(own, len(alive)), alive]) if changing else alive
        if small.size <= LARGEST_TABLE:
            ends = config.ends or (1 if small.deterministic else SEVERAL)
            # Noise would hide where errors are.
            moving = moves(config, LEAVING if ends > 1 else SPREADING if changing else STAYING)
            return Experience(
                small, jnp.asarray(frames), starts, config.batch, 1, *moving, mesh, ends=ends, pieces=mosaic(frames)
            )
        world = PicturedTable(small, frames)
    elif world.continuous is not None:
        starts, usual = world.states(), STAYING
    else:
        walks = not world.on_host and config.walk is not False
        starts, simpler = beginnings(world, config.horizon, walks)
        usual = LEAVING if walks else SPREADING
    if world.on_host and jax.process_count() > 1:
        raise ValueError(f"world {world.name!r} is too large to tabulate and runs on the host; learn it in one process")
    mesh = None if world.on_host else mesh
    windows = config.windows or (1 if usual is LEAVING else IN_A_ROW)
    agents = max(config.batch // windows, 1)
    walks = walks and agents >= WALKING
    moving = moves(config, usual)
    return Experience(world, None, starts, agents, windows, *moving, mesh, simpler, walks, config.ends or 1)


def living(world: TableWorld) -> np.ndarray:
    """Numbers of the states that an episode goes on from."""
    alive = np.flatnonzero(~np.asarray(world.terminal(np.arange(world.size))))
    if not alive.size:
        raise ValueError(f"world {world.name!r} ends in every state that it has, so there is nothing to learn")
    return alive


def moves(config: Config, usual: tuple[float, float]) -> tuple[float, float]:
    """How often agents start anew and go back to errors: as told, or as is usual."""
    told = config.restart, config.revisit
    return usual[0] if told[0] is None else told[0], usual[1] if told[1] is None else told[1]


def beginnings(world: World, horizon: int, looking: bool = True) -> tuple[State, int | None]:
    """Where agents start anew in a large world, and how many of these states come first (None: all).

    A third each: the world's own starts; states of random play from which something unusual happened within a window,
    as when a box is pushed; and any living states of random play, each as likely as any other, with all that was moved,
    laid or flooded. The last come later. Without `looking` at what changes, which takes long on the host, half each:
    own starts and any.
    """
    rng, starts = np.random.default_rng(0), world.states()
    count, each = len(leaves(starts)[0]), sum(np.asarray(x).nbytes for x in leaves(world.start))
    fitting = max(LARGEST_STROLL // (STROLL * (each + frame_bytes(world))), 1)
    strollers = min(HOST_STROLLERS if world.on_host else STROLLERS, fitting)
    size = min(max(count, strollers), max(LARGEST_STROLL // (8 * each), 1))
    path = _stroll(world, take(starts, rng.integers(count, size=strollers)), rng)
    alive = [~np.asarray(world.terminal(states)) for states in path]
    met = stack([take(states, living) for states, living in zip(path[1:], alive[1:], strict=True)])
    _, distinct = np.unique(identify(met), return_index=True)
    rows = np.arange(size) % count if size >= count else rng.choice(count, size, replace=False)
    own, any_met = take(starts, rows), take(met, rng.choice(distinct, size))
    if not looking:
        return stack([own, any_met]), None
    # Of a long window, what happens late says little of where it began.
    within = min(horizon, STROLL // 2)
    before = stack([take(states, living) for states, living in zip(path[:-within], alive, strict=False)])
    changes = np.concatenate(list(_changes(world, path, alive, within)))
    eventful = take(before, rng.choice(len(changes), size, p=unusual(changes)))
    return stack([own, eventful, any_met]), 2 * size


def unusual(changes: np.ndarray) -> np.ndarray:
    """How likely each window is to be picked: each number of changes that few windows have is as likely as any other
    such, but for the very rarest, which are one or two windows. Where none is unusual, all are."""
    counts, windows = np.bincount(changes), len(changes)
    few = counts <= USUAL * windows
    weights = np.where(few | ~few[changes].any(), 1 / np.maximum(counts, FREAK * windows), 0.0)[changes]
    return weights / weights.sum()


def _stroll(world: World, states: State, rng: np.random.Generator) -> list[State]:
    """Random play: the states before each step and after the last."""
    path = [states]
    for _ in range(STROLL):
        action = world.draw_actions((len(leaves(states)[0]),), rng)
        states = world.step(states, action, world.draw_chance(states, action, rng))
        path.append(states)
    return path


def _changes(world: World, path: list[State], alive: list[np.ndarray], horizon: int) -> Iterator[np.ndarray]:
    """How many numbers of the observation differ after a window, for each that begins alive."""

    @jax.jit
    def count(before: State, after: State) -> Int[Array, "n"]:
        differ = world.observe(before) != world.observe(after)
        return differ.sum(axis=tuple(range(1, differ.ndim)))

    together = max(LARGEST_SAMPLE // frame_bytes(world), 1)
    for before, after, living in zip(path, path[horizon:], alive, strict=False):
        pairs = zip(blocks(before, together), blocks(after, together), strict=True)
        yield np.concatenate([np.asarray(count(*pair)) for pair in pairs])[living]


def frame_bytes(world: World) -> int:
    """Bytes of one observation."""
    return max(np.asarray(world.observe(world.start)).nbytes, 1)


def tabulate(world: World, limit: int) -> tuple[TableWorld, np.ndarray, np.ndarray] | None:
    """The world as a table, its frames and its own starts; None if more than `limit` states are within reach, or if
    their frames would take too much memory."""
    starts = world.states()
    if world.continuous is not None or not world.chances or len(leaves(starts)[0]) > limit:
        return None
    table = closure(world, starts, limit)
    if table.size > limit or table.size * frame_bytes(world) > LARGEST_FRAMES:
        return None
    odds = np.ones(table.successors.shape) if table.odds is None else table.odds
    ends = np.asarray(world.terminal(table.states))
    small = TableWorld(table.successors, odds, world.name, world.actions, terminals=ends)
    return small, np.asarray(world.observe(table.states)), table.starts


def _choose(mask: Bool[Array, "n"], yes: State, no: State) -> State:
    """Rows of `yes` where the mask is true, else rows of `no`."""
    return jax.tree.map(lambda a, b: jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b), yes, no)
