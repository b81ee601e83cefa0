"""Where windows (x, a_1..a_K, x') come from: an archive of start states of a world that can be set.

At each update, start states are drawn from the archive in proportion to their priorities
(stratified sampling), and a sequence is played from each. Priorities follow the squared error of
the source: rare places such as doorways would otherwise be learned last. Small worlds have all
their living states in the archive. For larger ones it is a sample: the world's own starts, states
of random play, and such states from which something rare happened within a window, as when a box
was pushed. Every eighth window then starts where a greedy walker is, and some of the walkers'
states join the archive, so that what greedy agents meet is learned.

Inside a window terminal states absorb, as in the exact channel. Where chance decides and the world
is a table, each sequence is played several times, so that ln q can be averaged over outcomes.

Each device plays and observes its own share of the windows. The archive is the same on every
device.
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
from ..worlds.world import State, World, blocks, concatenate, identify, leaves, take
from .acting import act, draw_outcome
from .config import Config
from .devices import REPLICATED, SHARDED, constrain, per_device
from .pictures import PatchTable, UniqueFrames, distinct, patch_table
from .sequence import actions_of

LARGEST_TABLE = 2048
"""Worlds with at most this many states are tabulated: a step is then a look-up, and each frame is
encoded once. A default batch holds as many frames: 1,024 starts and 1,024 ends."""
LARGEST_HOST_TABLE = 2**17
"""Worlds that run on the host are tabulated up to here: a look-up on the device is far quicker than
their step."""
PRIORITISED = 0.6
"""Share of the starts that are drawn in proportion to the squared error; the rest by the archive's
first weights."""
MEMORY = 0.5
"""What a start's squared error keeps of its old value when the start was drawn again."""
ROLLOUTS, HOST_ROLLOUTS, ROLLOUT_STEPS = 8192, 1024, 40
"""Agents, fewer where the world runs on the host, and steps of the random play that the archive is
filled from."""
SAMPLE, LARGEST_SAMPLE = 256, 2**26
"""Observations that the representation's centre and scale are taken from, and how many bytes they
take at most."""
VISITED, VISITED_SHARE, ADDED = 8192, 0.25, 8
"""Size of the ring buffer of walkers' states, the share of starts drawn from it, and the number of
walkers for each state that an update adds to it."""
LARGEST_ROLLOUTS = 2**31
"""Bytes of the states and observations of random play; in larger worlds fewer agents play."""
LARGEST_FRAMES = 2**30
"""Bytes of all frames of a tabulated world; where they would take more, it is learned without a
table."""
RARE, RARE_FLOOR = 0.05, 0.001
"""A number of changed observation entries is rare if at most this share of the windows has it.
Below the second share, windows are sampled less often."""
WALKERS, EPSILON, RESET_PROBABILITY = 8, 0.2, 0.02
"""One in this many windows starts at a greedy walker; a walker's probabilities of a random action
and of a restart, per step."""


class Batch(NamedTuple):
    """Windows, with each distinct frame once. Every device has its share of the frames and of the
    windows on them, and numbers its frames from zero."""

    frames: Shaped[Array, "frames *shape"] | UniqueFrames | PatchTable
    start: Int[Array, "n"]
    """Which frame is x."""
    end: Int[Array, "_"]
    """Which frame is x'; where a sequence was played several times from its start, all of its ends
    stand together."""
    actions: Shaped[Array, "n steps ..."]
    value: Float[Array, "n"] | None = None
    """Empowerment of the starts in nats, where a model gives it."""
    log_q: Float[Array, "n *heads"] | None = None
    """ln q of each sequence by the EMA decoder, its mean over the ends, where the source is fitted
    to that; with feedback, what follows is added, for each number of steps to go."""
    log_b: Float[Array, "n"] | None = None
    """ln b(a|x), the log-probability with which each sequence was drawn."""
    ended: Bool[Array, "_"] | None = None
    """Whether an episode is over at each end; None where that is not known."""
    odds: Float[Array, "n outcomes"] | None = None
    """The probability of each end, where all outcomes of the windows were listed."""


Draw = Callable[..., Any]
"""`draw(frames, rows, key=)`: a sequence for each row of the frames, and ln b of each."""


@runtime_checkable
class Policy(Protocol):
    """What agents act by."""

    def __call__(self, frames: Any, rows: Any, *, key: Key[Array, ""]) -> Any:
        """One sequence for each row of the frames, and the log-probability with which it was
        drawn."""
        ...

    def value(self, frames: Any, rows: Any) -> Float[Array, "n"]:
        """ψ of each row of the frames."""
        ...


class ArchiveState(NamedTuple):
    """What of the archive changes from update to update."""

    errors: Float[Array, "starts"]
    """Running mean of the squared error of windows from each start; those of `visited` come last.
    """
    drawn: Int[Array, "windows"]
    """Which starts the last update's windows came from; windows of walkers are not among them."""
    walkers: State
    """Where the greedy walkers are."""
    visited: State
    """Ring buffer of states where walkers were: starts that are met by acting well only."""
    added: Int[Array, ""]
    """How many states were added to it."""


class ArchiveCollector(NamedTuple):
    """Plays windows from an archive of start states, in a world that can be set."""

    world: World
    frames: Any
    """All frames of a tabulated world, or None."""
    starts: State
    weights: Float[Array, "starts"]
    """How often each start is drawn while all errors are equal; they sum to 1."""
    batch: int
    mesh: Mesh | None = None
    """Devices that windows are spread over."""
    walkers: int = 0
    """How many windows start at greedy walkers."""
    outcomes: int = 1
    """How often each sequence is played from its start."""
    listed: bool = False
    """If true, `outcomes` covers every outcome of a window's single action exactly once, instead of
    random draws."""
    pieces: PatchTable | None = None
    """All frames as the patches that they are made of, if these are few."""

    placement = ArchiveState(*[REPLICATED] * 5)  # pyright: ignore[reportArgumentType]
    """The same on every device."""

    @property
    def tabulated(self) -> bool:
        """Whether every state has a number, and its frame is stored."""
        return self.frames is not None

    @property
    def pictured(self) -> bool:
        """Whether agents see pictures of a world on the device, of which many are the same."""
        return not self.on_host and len(np.shape(self.world.observe(self.world.start))) == 3

    @property
    def on_host(self) -> bool:
        """Whether agents act on the host, outside of the compiled loop."""
        return self.world.on_host

    def init(self, key: Key[Array, ""]) -> ArchiveState:
        """All errors are equal at first."""
        walker_key, visited_key = jax.random.split(key)
        drawn = jnp.zeros(self.batch - self.walkers, jnp.int32)
        walkers = self._fresh(self.walkers, key=walker_key)
        visited = self._fresh(VISITED if self.walkers else 0, key=visited_key)
        errors = jnp.ones(len(self.weights) + len(leaves(visited)[0]))
        return ArchiveState(errors, drawn, walkers, visited, jnp.zeros((), jnp.int32))

    def next_starts(
        self, state: ArchiveState, policy: Policy, *, key: Key[Array, ""]
    ) -> tuple[ArchiveState, State]:
        """Where each walker goes next, and starts drawn by priority."""
        draw_key, walk_key = jax.random.split(key)
        drawn = stratified(self.priorities(state), self.batch - self.walkers, key=draw_key)
        fixed, walkers = len(self.weights), state.walkers
        starts = take(jax.tree.map(jnp.asarray, self.starts), jnp.minimum(drawn, fixed - 1))
        if self.walkers:
            visited = take(state.visited, jnp.maximum(drawn - fixed, 0))
            starts = _choose(drawn < fixed, starts, visited)
            walkers = self._walk(walkers, policy, key=walk_key)
            starts = jax.tree.map(lambda *x: jnp.concatenate(x), walkers, starts)
        state = state._replace(drawn=drawn, walkers=walkers)
        return state, constrain(self.mesh, starts, SHARDED)

    def collect(
        self, state: ArchiveState, policy: Policy, *, key: Key[Array, ""]
    ) -> tuple[ArchiveState, Batch]:
        """One window from each of the next starts."""
        start_key, choose_key, act_key = jax.random.split(key, 3)
        state, starts = self.next_starts(state, policy, key=start_key)
        frames, rows = per_device(self.mesh, self._look)(starts)
        actions, log_b = policy(frames, rows, key=choose_key)
        again, repeated = jax.tree.map(
            lambda x: jnp.repeat(x, self.outcomes, axis=0), (starts, actions)
        )
        if self.listed:
            which = jnp.tile(jnp.arange(self.outcomes), len(actions))
            ends = self.world.step(again, repeated[:, 0], which)
        else:
            ends = act(self.world, again, repeated, self.outcomes, key=act_key)
        ends = constrain(self.mesh, ends, SHARDED)
        batch = per_device(self.mesh, self._batch)(starts, actions, log_b, ends)
        if self.listed and self.outcomes > 1:
            odds = jnp.asarray(self.world.probabilities(starts, actions[:, 0]))
            batch = batch._replace(odds=odds.astype(jnp.float32))
        return state, batch

    def feedback(self, state: ArchiveState, errors: Float[Array, "n"]) -> ArchiveState:
        """Priorities follow the squared error of the windows that were drawn; some walkers' states
        are kept with the error that was met there."""
        squared = constrain(self.mesh, errors**2, REPLICATED)
        drawn = squared[self.walkers :]
        total, count = (jnp.zeros_like(state.errors).at[state.drawn].add(x) for x in (drawn, 1.0))
        new = MEMORY * state.errors + (1 - MEMORY) * total / jnp.maximum(count, 1.0)
        state = state._replace(errors=jnp.where(count > 0, new, state.errors))
        return state if not self.walkers else self._add(state, squared[: self.walkers])

    def _add(self, state: ArchiveState, squared: Float[Array, "walkers"]) -> ArchiveState:
        """Some of the walkers take the places of the oldest visited states."""
        number = state.added + jnp.arange(max(self.walkers // ADDED, 1))
        walker, place = number % self.walkers, number % VISITED
        visited = jax.tree.map(
            lambda old, new: old.at[place].set(new), state.visited, take(state.walkers, walker)
        )
        errors = state.errors.at[len(self.weights) + place].set(squared[walker])
        return state._replace(errors=errors, visited=visited, added=state.added + len(number))

    def priorities(self, state: ArchiveState) -> Float[Array, "starts"]:
        """How likely each start is to be drawn next."""
        weights = self.weights
        if self.walkers:
            share = jnp.full(VISITED, VISITED_SHARE / VISITED)
            weights = jnp.concatenate([(1 - VISITED_SHARE) * weights, share])
        by_error = weights * state.errors
        return (1 - PRIORITISED) * weights + PRIORITISED * by_error / by_error.sum()

    def _walk(self, walkers: State, policy: Policy, *, key: Key[Array, ""]) -> State:
        """One step of every walker: mostly by the action that led to the largest ψ in one draw of
        chance for each; the dead and some others restart."""
        look_key, stray_key, any_key, reset_key, step_key, fresh_key = jax.random.split(key, 6)
        count, actions = self.walkers, len(self.world.actions)
        each = jax.tree.map(lambda x: jnp.repeat(x, actions, axis=0), walkers)
        action = jnp.tile(jnp.arange(actions), count)
        following = self.world.step(
            each, action, draw_outcome(self.world, each, action, key=look_key)
        )
        room = 0 if self.mesh is None else -len(action) % self.mesh.size  # every device has as many
        padded = jax.tree.map(
            lambda x: jnp.pad(x, [(0, room)] + [(0, 0)] * (x.ndim - 1)), following
        )
        values = policy.value(*per_device(self.mesh, self._look)(padded))[: len(action)].reshape(
            count, actions
        )
        strays = jax.random.uniform(stray_key, (count,)) < EPSILON
        taken = jnp.where(
            strays, jax.random.randint(any_key, (count,), 0, actions), values.argmax(-1)
        )
        # A new draw of chance: an agent does not know it when it chooses.
        there = self.world.step(
            walkers, taken, draw_outcome(self.world, walkers, taken, key=step_key)
        )
        again = self.world.terminal(there) | (
            jax.random.uniform(reset_key, (count,)) < RESET_PROBABILITY
        )
        return _choose(again, self._fresh(count, key=fresh_key), there)

    def steps_taken(self, updates: int, horizon: int) -> int:
        """Steps of the world in so many updates."""
        return updates * horizon * self.batch * self.outcomes

    def sample_frames(self, key: Key[Array, ""]) -> Any:
        """Observations of agents that acted at random, for the representation's centre and
        scale."""
        if self.frames is not None:
            return self.frames
        count = max(min(max(self.batch, SAMPLE), LARGEST_SAMPLE // frame_bytes(self.world)), 2)
        fresh_key, draw_key, act_key = jax.random.split(key, 3)
        actions = actions_of(self.world).uniform((count, 10), draw_key)
        agents = act(self.world, self._fresh(count, key=fresh_key), actions, key=act_key)
        return jnp.asarray(self.world.observe(agents))

    def _fresh(self, count: int, *, key: Key[Array, ""]) -> State:
        """Starts by the archive's first weights."""
        return take(
            jax.tree.map(jnp.asarray, self.starts), stratified(self.weights, count, key=key)
        )

    def _all(self) -> Any:
        """All frames of a tabulated world, as they are encoded."""
        return self.frames if self.pieces is None else self.pieces

    def _look(self, states: State) -> tuple[Any, Any]:
        """Frames of one device's agents, and which of them each agent sees."""
        if self.frames is not None:
            return self._all(), states
        if self.pictured:
            order, count, rows = distinct(states)
            return UniqueFrames(jnp.asarray(self.world.observe(take(states, order))), count), rows
        frames = jnp.asarray(self.world.observe(states))
        return frames, jnp.arange(len(frames))

    def _batch(self, starts: State, actions: Any, log_b: Any, ends: State) -> Batch:
        """One device's windows."""
        ended = jnp.asarray(self.world.terminal(ends))
        if self.frames is not None:
            return Batch(self._all(), starts, ends, actions, log_b=log_b, ended=ended)
        frames, rows = self._look(jax.tree.map(lambda *x: jnp.concatenate(x), starts, ends))
        windows = rows[: len(actions)], rows[len(actions) :], actions
        return Batch(frames, *windows, log_b=log_b, ended=ended)


def stratified(
    weights: Float[Array, "n"], count: int, *, key: Key[Array, ""]
) -> Int[Array, "count"]:
    """Stratified sampling: `count` numbers in proportion to the weights, one from each of `count`
    equal shares."""
    levels = jnp.cumsum(weights)
    points = (jnp.arange(count) + jax.random.uniform(key, (count,))) / max(count, 1)
    return jnp.searchsorted(levels, points * levels[-1]).clip(0, len(weights) - 1).astype(jnp.int32)


def archive(world: World, config: Config, mesh: Mesh | None = None) -> ArchiveCollector:
    """The collector of `config.batch` windows an update; small worlds are tabulated first."""
    table = tabulate(world, LARGEST_HOST_TABLE if world.on_host else LARGEST_TABLE)
    if table is not None and table[0].size <= LARGEST_TABLE:
        small, frames, own = table
        alive = living(small)
        # Where keys are taken and doors opened for good, what comes before must be met as often as
        # what comes after.
        weights = np.full(len(alive), 1 / len(alive))
        first = np.isin(alive, own)
        if first.any():
            weights = 0.5 * weights + 0.5 * first / first.sum()
        return _from(
            small,
            config,
            mesh,
            frames=jnp.asarray(frames),
            starts=alive,
            weights=jnp.asarray(weights, jnp.float32),
            pieces=patch_table(frames),
        )
    world = world if table is None else table[0]
    if world.on_host and jax.process_count() > 1:
        raise ValueError(
            f"world {world.name!r} is too large to tabulate and runs on the host; learn it in one "
            "process"
        )
    starts = beginnings(world, config.horizon)
    count = len(leaves(starts)[0])
    walkers = 0 if world.on_host or world.continuous is not None else config.batch // WALKERS
    return _from(
        world,
        config,
        None if world.on_host else mesh,
        frames=None,
        starts=starts,
        weights=jnp.full(count, 1 / count),
        walkers=walkers,
    )


def _from(world: World, config: Config, mesh: Mesh | None, **parts: Any) -> ArchiveCollector:
    """The archive collector of a configuration. With feedback a window has one action, and all its
    outcomes are listed if the world is enumerable."""
    listed = config.feedback and world.enumerable
    outcomes = world.branches if listed else config.outcomes
    return ArchiveCollector(
        world, batch=config.batch, mesh=mesh, outcomes=outcomes, listed=listed, **parts
    )


def living(world: TableWorld) -> np.ndarray:
    """Numbers of the states from which an episode can continue."""
    alive = np.flatnonzero(~np.asarray(world.terminal(np.arange(world.size))))
    if not alive.size:
        raise ValueError(
            f"world {world.name!r} ends in every state that it has, so there is nothing to learn"
        )
    return alive


def beginnings(world: World, horizon: int | float) -> State:
    """The archive of a world too large to tabulate, a third each: the world's own starts; states of
    random play from which something rare happened within a window, as when a box is pushed; and any
    living states of random play, each as likely as any other. Without the second on the host, where
    looking for it takes long."""
    rng, starts = np.random.default_rng(0), world.states()
    count, each = len(leaves(starts)[0]), sum(np.asarray(x).nbytes for x in leaves(world.start))
    fitting = max(LARGEST_ROLLOUTS // (ROLLOUT_STEPS * (each + frame_bytes(world))), 1)
    rollouts = min(HOST_ROLLOUTS if world.on_host else ROLLOUTS, fitting)
    size = min(max(count, rollouts), max(LARGEST_ROLLOUTS // (8 * each), 1))
    path = _rollouts(world, take(starts, rng.integers(count, size=rollouts)), rng)
    alive = [~np.asarray(world.terminal(states)) for states in path]
    met = concatenate(
        [take(states, living) for states, living in zip(path[1:], alive[1:], strict=True)]
    )
    _, distinct = np.unique(identify(met), return_index=True)
    rows = np.arange(size) % count if size >= count else rng.choice(count, size, replace=False)
    own, any_met = take(starts, rows), take(met, rng.choice(distinct, size))
    if world.on_host:
        return concatenate([own, any_met])
    # Of a long window, what happens late says little of where it began.
    within = int(min(horizon, ROLLOUT_STEPS // 2))
    before = concatenate(
        [take(states, living) for states, living in zip(path[:-within], alive, strict=False)]
    )
    changes = np.concatenate(list(_changes(world, path, alive, within)))
    eventful = take(before, rng.choice(len(changes), size, p=rare(changes)))
    return concatenate([own, eventful, any_met])


def rare(changes: np.ndarray) -> np.ndarray:
    """The probability of sampling each window. Windows are grouped by their number of changes.

    All rare groups are equally likely, except the very rarest, which are less likely; frequent
    groups have probability 0. If no group is rare, all groups are equally likely.
    """
    counts, windows = np.bincount(changes), len(changes)
    few = counts <= RARE * windows
    weights = np.where(
        few | ~few[changes].any(), 1 / np.maximum(counts, RARE_FLOOR * windows), 0.0
    )[changes]
    return weights / weights.sum()


def _rollouts(world: World, states: State, rng: np.random.Generator) -> list[State]:
    """Random play: the states before each step and after the last."""
    path = [states]
    for _ in range(ROLLOUT_STEPS):
        action = world.draw_actions((len(leaves(states)[0]),), rng)
        states = world.step(states, action, world.draw_outcome(states, action, rng))
        path.append(states)
    return path


def _changes(
    world: World, path: list[State], alive: list[np.ndarray], horizon: int
) -> Iterator[np.ndarray]:
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
    """The world as a table, its frames and its own starts; None if more than `limit` states are
    within reach, or if their frames would take too much memory."""
    starts = world.states()
    if not world.enumerable or len(leaves(starts)[0]) > limit:
        return None
    table = closure(world, starts, limit)
    if table.size > limit or table.size * frame_bytes(world) > LARGEST_FRAMES:
        return None
    odds = np.ones(table.successors.shape) if table.odds is None else table.odds
    ends = np.asarray(world.terminal(table.states))
    frames = np.asarray(world.observe(table.states))
    return (
        TableWorld(
            table.successors,
            odds,
            world.name,
            world.actions,
            terminals=ends,
            shown=table.starts,
            frames=frames,
        ),
        frames,
        table.starts,
    )


def _choose(mask: Bool[Array, "n"], yes: State, no: State) -> State:
    """Rows of `yes` where the mask is true, else rows of `no`."""
    return jax.tree.map(
        lambda a, b: jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b), yes, no
    )
