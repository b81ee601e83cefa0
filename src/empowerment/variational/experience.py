"""Where windows (x, a_1..a_K, x') come from: agents that act in a world on the device.

Many agents play in parallel. At each update every agent plays `windows` windows one after the other, so that x' of
one is x of the next and each frame is encoded once. Between updates, and only then, agents are moved: the dead and
some others start anew, and many go back to where the last windows started, the likelier the larger the error was there
(rare places such as doorways would else be learned last). No window bridges a move. Inside a window the dead stay
dead, as in the exact channel.

Each device acts and observes for its own share of the agents. Where windows started and how large their errors were is
known everywhere, since an agent may go back to where any other was.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from ..reach import closure
from ..worlds.table import TableWorld
from ..worlds.world import State, World, identify, leaves, stack, take
from .devices import SHARED, SPREAD, constrain, gather_rows, on_each
from .sequence import actions_of

LARGEST_TABLE = 1024
"""Worlds of at most so many states are tabulated: a step is then a look-up, and each frame is encoded once."""
LARGEST_HOST_TABLE = 2**15
"""Worlds that run on the host are tabulated up to here: a look-up on the device is far quicker than their step."""

STAYING, SPREADING = (0.1, 0.6), (0.5, 0.2)
"""How often agents start anew and go back to errors. In a world that is large, or changes for good, going back would
narrow down what is seen."""
WALKERS, HOST_WALKERS, STROLL = 8192, 1024, 40
"""Agents, fewer where the world runs on the host, and steps of the random play that further starts come from."""


class Batch(NamedTuple):
    """Windows, with each distinct frame once. Every device has its share of the frames and of the windows on them, and
    numbers its frames from zero."""

    frames: Shaped[Array, "frames *shape"]
    start: Int[Array, "n"]
    """Which frame is x."""
    end: Int[Array, "n"]
    """Which frame is x'."""
    actions: Shaped[Array, "n steps ..."]
    value: Float[Array, "n"] | None = None
    """Empowerment of the starts in nats, where a model told it."""


Chooser = Callable[..., Any]
"""`choose(frames, rows, key=)` draws one sequence for each row of the frames."""


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

    placement = Agents(SPREAD, SHARED, SHARED)  # pyright: ignore[reportArgumentType]
    """What of the agents is divided among the devices."""

    @property
    def on_host(self) -> bool:
        """Whether agents act on the host, outside of the compiled loop."""
        return self.world.on_host

    def init(self, key: Key[Array, ""]) -> Agents:
        """The agents' first states; every start is as good as any other."""
        states = self._fresh(key)
        visited = jax.tree.map(lambda x: jnp.concatenate([x] * self.windows), states)
        return Agents(states, visited, jnp.ones(self.agents * self.windows))

    def collect(self, agents: Agents, choose: Chooser, *, key: Key[Array, ""]) -> tuple[Agents, Batch]:
        """Let every agent act; `choose(frames, rows, key=)` draws the sequences."""
        move_key, key = jax.random.split(key)
        states = self._move(agents, key=move_key)
        visited, chosen = [states], []
        for window_key in jax.random.split(key, self.windows):
            choose_key, act_key = jax.random.split(window_key)
            frames, rows = on_each(self.mesh, self._look)(states)
            chosen.append(choose(frames, rows, key=choose_key))
            states = constrain(self.mesh, act(self.world, states, chosen[-1], key=act_key), SPREAD)
            visited.append(states)
        starts = on_each(self.mesh, self._everyones, outputs=SHARED)(visited[:-1])
        return Agents(states, starts, agents.errors), on_each(self.mesh, self._batch)(visited, chosen)

    def learned(self, agents: Agents, errors: Float[Array, "n"]) -> Agents:
        """Remember how large the error was at each window's start; they come device by device."""
        if self.mesh is None:
            return agents._replace(errors=errors)
        ordered = errors.reshape(self.mesh.size, self.windows, -1).swapaxes(0, 1).reshape(-1)
        return agents._replace(errors=constrain(self.mesh, ordered, SHARED))

    def _move(self, agents: Agents, *, key: Key[Array, ""]) -> State:
        """Send some agents back to where errors were large, and the dead and some others to a new start."""
        keys = jax.random.split(key, 4)
        levels = jnp.cumsum(agents.errors**2)
        draws = jax.random.uniform(keys[0], (self.agents,)) * levels[-1]
        back = take(agents.visited, jnp.searchsorted(levels, draws).clip(0, len(levels) - 1))
        states = _choose(jax.random.uniform(keys[1], (self.agents,)) < self.revisit, back, agents.states)
        again = self.world.terminal(states) | (jax.random.uniform(keys[2], (self.agents,)) < self.restart)
        return constrain(self.mesh, _choose(again, self._fresh(keys[3]), states), SPREAD)

    def _everyones(self, visited: list[State]) -> State:
        """On each device: the states of all devices, one list entry after the other."""

        def one(*parts: Any) -> Any:
            whole = gather_rows(self.mesh, jnp.stack(parts), axis=1)
            return whole.reshape(len(parts) * whole.shape[1], *whole.shape[2:])

        return jax.tree.map(one, *visited)

    def sample_frames(self, key: Key[Array, ""]) -> Any:
        """Observations of agents that acted at random, for the representation's centre and scale."""
        if self.frames is not None:
            return self.frames
        agents, (first, later) = self._fresh(key), jax.random.split(key)
        agents = act(self.world, agents, actions_of(self.world).uniform((self.agents, 10), first), key=later)
        return jnp.asarray(self.world.observe(agents))

    def _fresh(self, key: Key[Array, ""]) -> State:
        pick = jax.random.randint(key, (self.agents,), 0, len(leaves(self.starts)[0]))
        return take(jax.tree.map(jnp.asarray, self.starts), pick)

    def _look(self, states: State) -> tuple[Any, Any]:
        """Frames of one device's agents, and which of them each agent sees."""
        if self.frames is not None:
            return self.frames, states
        frames = jnp.asarray(self.world.observe(states))
        return frames, jnp.arange(len(frames))

    def _batch(self, visited: list[State], chosen: list[Any]) -> Batch:
        """One device's windows."""
        actions = jnp.concatenate(chosen)
        if self.frames is not None:
            return Batch(self.frames, jnp.concatenate(visited[:-1]), jnp.concatenate(visited[1:]), actions)
        frames = jnp.asarray(self.world.observe(jax.tree.map(lambda *x: jnp.concatenate(x), *visited)))
        rows = jnp.arange(len(actions))
        return Batch(frames, rows, rows + len(chosen[0]), actions)


class PicturedTable(TableWorld):
    """A table whose states are seen as the pictures of the world that it was made from."""

    def __init__(self, table: TableWorld, frames: np.ndarray):
        super().__init__(
            table.successors, table.odds, table.name, table.actions, terminals=table.terminal(np.arange(table.size))
        )
        self._frames = frames

    def observe(self, state: Any) -> Any:
        return jnp.asarray(self._frames)[state]


def experience(
    world: World, batch: int, windows: int, restart: float | None, revisit: float | None, mesh: Mesh | None = None
) -> Experience:
    """The experience of `batch` windows an update; small worlds are tabulated first."""
    table = tabulate(world, LARGEST_HOST_TABLE if world.on_host else LARGEST_TABLE)
    if table is None:
        starts = world.states() if world.continuous is not None else beginnings(world)
    else:
        small, frames, own = table
        living = np.flatnonzero(~np.asarray(small.terminal(np.arange(small.size))))
        # Where keys are taken and doors opened for good, what comes before must be met as often as what comes after.
        changing = len(own) < len(living)
        starts = np.concatenate([np.resize(own, len(living)), living]) if changing else living
        if small.size <= LARGEST_TABLE:
            moving = moves(restart, revisit, SPREADING if changing else STAYING)
            return Experience(small, jnp.asarray(frames), starts, batch, 1, *moving, mesh)
        world = PicturedTable(small, frames)
    if world.on_host and jax.process_count() > 1:
        raise ValueError(f"world {world.name!r} is too large to tabulate and runs on the host; learn it in one process")
    mesh = None if world.on_host else mesh
    agents = max(batch // windows, 1)
    usual = SPREADING if world.continuous is None else STAYING
    return Experience(world, None, starts, agents, windows, *moves(restart, revisit, usual), mesh)


def moves(restart: float | None, revisit: float | None, usual: tuple[float, float]) -> tuple[float, float]:
    """How often agents start anew and go back to errors: as told, or as is usual."""
    return usual[0] if restart is None else restart, usual[1] if revisit is None else revisit


def beginnings(world: World) -> State:
    """Where agents start anew: half of them at the world's own starts, half at living states of random play, so that
    moved boxes, laid bricks and advancing lava are met from the first update on."""
    rng, starts = np.random.default_rng(0), world.states()
    count, walkers = len(leaves(starts)[0]), HOST_WALKERS if world.on_host else WALKERS
    states, met = take(starts, rng.integers(count, size=walkers)), []
    for _ in range(STROLL):
        action = world.draw_actions((walkers,), rng)
        states = world.step(states, action, world.draw_chance(states, action, rng))
        met.append(take(states, ~np.asarray(world.terminal(states))))
    later = stack(met)
    _, distinct = np.unique(identify(later), return_index=True)
    size = max(count, walkers)
    return stack([take(starts, np.arange(size) % count), take(later, rng.choice(distinct, size))])


def tabulate(world: World, limit: int) -> tuple[TableWorld, np.ndarray, np.ndarray] | None:
    """The world as a table, its frames and its own starts; None if more than `limit` states are within reach."""
    starts = world.states()
    if world.continuous is not None or len(leaves(starts)[0]) > limit:
        return None
    table = closure(world, starts, limit)
    if table.size > limit:
        return None
    odds = np.ones(table.successors.shape) if table.odds is None else table.odds
    ends = np.asarray(world.terminal(table.states))
    small = TableWorld(table.successors, odds, world.name, world.actions, terminals=ends)
    return small, np.asarray(world.observe(table.states)), table.starts


def act(world: World, state: State, actions: Any, *, key: Key[Array, ""]) -> State:
    """The state after a whole sequence, with chance drawn."""

    def step(state: State, now: Any) -> tuple[State, None]:
        action, key = now
        return world.step(state, action, draw_chance(world, state, action, key=key)), None

    keys = jax.random.split(key, actions.shape[1])
    if world.on_host:  # cannot be compiled
        for k, key in enumerate(keys):
            state, _ = step(state, (actions[:, k], key))
        return state
    return jax.lax.scan(step, state, (jnp.moveaxis(actions, 1, 0), keys))[0]


def draw_chance(world: World, state: State, action: Any, *, key: Key[Array, ""]) -> Shaped[Array, "n ..."]:
    """An index into the probabilities of each action's outcomes, or the noise of worlds that cannot list them."""
    if world.noise:
        return jax.random.normal(key, (len(action), world.noise))
    if world.deterministic:
        return jnp.zeros(len(action), jnp.int32)
    levels = jnp.cumsum(world.probabilities(state, action), axis=-1)[:, :-1]
    return (jax.random.uniform(key, (len(action), 1)) >= levels).sum(-1)


def _choose(mask: Bool[Array, "n"], yes: State, no: State) -> State:
    """Rows of `yes` where the mask is true, else rows of `no`."""
    return jax.tree.map(lambda a, b: jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b), yes, no)
