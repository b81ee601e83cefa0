"""A trained estimator: NumPy in and out, whatever it was trained on."""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..exact import check_states
from ..landscape import Landscape, learned_nats
from ..worlds.world import State, World, concatenate, identify, leaves, take
from .closed_loop import ClosedLoopModel
from .collect import Batch
from .config import Config, is_whole
from .devices import refuse_fork
from .keys import seed_key
from .learner import Model
from .objective import bound, log_normaliser
from .sequence import Categorical

BLOCK = 256
"""Observations encoded together; the last block is padded so that few compilations serve all."""
BLOCK_NUMBERS = 2**17
"""Fewer are encoded together where they hold more numbers, so that they fit into caches."""
MOST_SEQUENCES = 2**17
SLACK = 0.01
"""Nats by which an estimate may lie outside of what is possible: an error of learning, not
nonsense."""
FARTHEST = 100
"""Observations may differ from the mean by this many times what the training's first ones did."""


class Bound(NamedTuple):
    """The Monte-Carlo estimate of the variational bound, one for each state, in nats."""

    nats: np.ndarray
    error: np.ndarray
    """Standard error."""

    def breaks(self, upper: np.ndarray) -> np.ndarray:
        """Where it lies above the truth by more than five standard errors, which no bound does."""
        return self.nats - upper > 5 * self.error + 1e-6


class Estimator:
    """Learned empowerment. `emp.train` and `emp.load` return it."""

    def __init__(self, model: Model | ClosedLoopModel, config: Config, world: World | None = None):
        self.model: Any = model
        self.config, self.world = config, world
        self._psi = eqx.filter_jit(lambda m, x: m.empowerment(x, config.beta))
        self._log_terms = eqx.filter_jit(Model.terms)
        self._choose = eqx.filter_jit(lambda m, *x, key: m.choose(*x, key=key))
        self._log_sources = eqx.filter_jit(lambda m, x: m.log_sources(m.representation(x)))
        self._posterior = eqx.filter_jit(_posterior)

    def __repr__(self) -> str:
        return f"<estimator of {self.world!r}, horizon {self.config.horizon}>"

    def empowerment(self, observations: Any) -> np.ndarray:
        """Nats, one for each observation (`uint8[n, H, W, 3]` or `float[n, size]`): ψ(s)/β, and
        where power is bounded what the allowed power costs, which ψ has subtracted."""
        return self._in_blocks(self._psi, self._checked(observations))

    def landscape(self, world: World | None = None, states: State | None = None) -> Landscape:
        """Learned empowerment of the states of a world, by default those of `emp.exact`; 0 where an
        episode ends."""
        world, states = self._where(world, states)
        nats, config = learned_nats(world, self.empowerment, states), self.config
        given = {"feedback": config.feedback, "discount": config.discount}
        return Landscape.of(world, config.horizon, states, nats, **given)

    def impossible(self, nats: np.ndarray) -> np.ndarray:
        """Which estimates no source could have: below 0, above (K ln N)/β with all sequences
        distinguished, or NaN."""
        actions = self.model.source.actions
        choices = np.log(actions.size) if isinstance(actions, Categorical) else np.inf
        most = self._steps() * choices / self.config.beta
        # The entropy of vectors, which β below 1 rewards, may be negative.
        least = 0.0 if isinstance(actions, Categorical) or self.config.beta == 1 else -np.inf
        return ~((nats >= least - SLACK) & (nats <= most + SLACK))

    def _steps(self) -> float:
        """Actions that count, each with its weight."""
        horizon, discount = self.config.horizon, self.config.discount
        if discount == 1:
            return float(horizon)
        return (1 - discount**horizon) / (1 - discount)

    def source(
        self, observation: Any, samples: int | np.integer = 1, seed: int | np.integer = 0
    ) -> np.ndarray:
        """Sequences drawn from the source h(a|s) at one observation, `int[samples, K]` or
        `float[samples, K, size]`."""
        if not is_whole(samples, 1):
            raise ValueError(f"samples={samples!r} must be a whole number of 1 or more")
        key = seed_key(seed, "source")
        frames = self._checked(np.asarray(observation)[None])
        rows = jnp.zeros(samples, jnp.int32)
        return np.asarray(self._choose(self.model, jnp.asarray(frames), rows, key=key))

    def plan(self, observation: Any, goal: Any) -> np.ndarray:
        """The decoder as a planner: a likely sequence from one observation to another, `int[K]` or
        `float[K, size]`."""
        frames = self._checked(np.stack([np.asarray(observation), np.asarray(goal)]))
        zero = jnp.zeros(1, jnp.int32)
        return np.asarray(
            self.model.read(self.model.representation(jnp.asarray(frames)), zero, zero + 1)[0]
        )

    def bound(
        self,
        world: World | None = None,
        states: State | None = None,
        samples: int | np.integer = 1000,
        seed: int = 0,
    ) -> Bound:
        """The variational bound at each state, from sequences drawn from the source and played in
        the world.

        Where power is bounded and a state's sequences would exceed it, they are scaled down to what
        is allowed.
        """
        if not is_whole(samples, 2):
            raise ValueError(
                f"samples={samples!r} must be a whole number of 2 or more, for a standard error"
            )
        world, states = self._where(world, states)
        rng, rows = np.random.default_rng(seed), []
        if self.config.feedback:
            return self._bound_with_feedback(world, states, samples, rng)
        for i in range(len(leaves(states)[0])):
            state = take(states, i)
            actions = self.source(
                np.asarray(world.observe(state)), samples, seed=int(rng.integers(2**31))
            )
            gain = self.model.source.actions.gain(actions)
            log_q, log_h = self._terms(world, state, actions, rng, gain)
            values = bound(log_q, log_h, self.config.beta, actions[0].size * np.log(gain))
            rows.append((values.mean(), values.std(ddof=1) / np.sqrt(samples)))
        return Bound(*np.array(rows).T)

    def _bound_with_feedback(
        self, world: World, states: State, samples: int | np.integer, rng: np.random.Generator
    ) -> Bound:
        """The mean of Σ_t γ^t (ln q - ln h) over episodes that follow the sources, side by side; an
        endless sum is cut off where little is left of it."""
        config, count = self.config, len(leaves(states)[0])
        steps = int(min(config.horizon, np.ceil(np.log(SLACK) / np.log(config.discount - 1e-12))))
        here = take(states, np.repeat(np.arange(count), samples))
        total = np.zeros(count * samples)
        for t in range(steps):
            alive = ~np.asarray(world.terminal(here))
            head = -1 if np.isinf(config.horizon) else -1 - t
            _, first, seen = np.unique(identify(here), return_index=True, return_inverse=True)
            log_h = self._in_blocks(self._log_sources, np.asarray(world.observe(take(here, first))))
            scores = log_h[:, head][seen]
            levels = np.exp(scores).cumsum(1)
            actions = (rng.random(len(scores))[:, None] > levels[:, :-1]).sum(1)
            after = world.step(here, actions, world.draw_outcome(here, actions, rng))
            log_q = self._log_posterior(world, here, after, head)
            gained = np.take_along_axis(log_q - scores, actions[:, None], 1)[:, 0]
            total += config.discount**t * np.where(alive, gained, 0.0)
            here = after
        sums = total.reshape(count, samples)
        return Bound(sums.mean(1), sums.std(1, ddof=1) / np.sqrt(samples))

    def _log_posterior(self, world: World, here: State, after: State, head: int) -> np.ndarray:
        """ln q(a|s, s') of all actions, each pair of states read once."""
        pairs = np.stack([np.unique(identify(x), return_inverse=True)[1] for x in (here, after)])
        _, first, row = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
        start, end = (np.asarray(world.observe(take(x, first))) for x in (here, after))
        read = [
            np.asarray(self._posterior(self.model, start[i : i + BLOCK], end[i : i + BLOCK]))
            for i in range(0, len(first), BLOCK)
        ]
        return np.concatenate(read)[:, head][row.ravel()]

    def log_z(self, world: World | None = None, states: State | None = None) -> np.ndarray:
        """(1/β) ln Z(s) by listing all sequences of a deterministic world: what the best source
        would have."""
        if self.config.feedback:
            raise ValueError("log Z lists action sequences, and with feedback there are none")
        world, states = self._where(world, states)
        sequences = self._sequences(world)
        return np.array(
            [
                log_normaliser(
                    jnp.asarray(self._terms(world, take(states, i), sequences)[0])[None],
                    self.config.beta,
                )[0]
                for i in range(len(leaves(states)[0]))
            ],
            np.float64,
        )

    def _terms(
        self,
        world: World,
        state: State,
        actions: np.ndarray,
        rng: np.random.Generator | None = None,
        gain: float = 1.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """ln q and ln h of sequences played from one state, multiplied by `gain`; each distinct end
        is seen once."""
        ends = play(world, state, actions if gain == 1 else np.float32(gain) * actions, rng)
        _, first, index = np.unique(identify(ends), return_index=True, return_inverse=True)
        frames = np.asarray(world.observe(concatenate([take(ends, first), repeat(state, 1)])))
        # Padded to few different sizes, so that few are compiled.
        room = max(64, 1 << (len(frames) - 1).bit_length()) - len(frames)
        frames = np.concatenate([frames, np.repeat(frames[:1], room, axis=0)])
        start = np.full(len(actions), len(first), np.int32)
        batch = Batch(
            jnp.asarray(frames),
            jnp.asarray(start),
            jnp.asarray(index, jnp.int32),
            jnp.asarray(actions),
        )
        log_q, log_h, _ = self._log_terms(self.model, batch)
        return np.asarray(log_q, np.float64), np.asarray(log_h, np.float64)

    def _sequences(self, world: World) -> np.ndarray:
        if world.continuous is not None:
            raise ValueError(
                f"log Z lists all sequences; {world.name!r} has continuous actions; use .bound "
                "instead"
            )
        actions, horizon = len(world.actions), self.config.window
        if not world.deterministic or actions**horizon > MOST_SEQUENCES:
            raise ValueError(
                f"log Z needs a deterministic world of at most {MOST_SEQUENCES:,} sequences; "
                f"{world.name!r} has "
                f"{actions}^{horizon}{'' if world.deterministic else ' and chance'}; use .bound "
                "instead"
            )
        every = itertools.product(range(len(world.actions)), repeat=horizon)
        return np.array(list(every), np.int32)

    def _where(self, world: World | None, states: State | None) -> tuple[World, State]:
        """A world and a batch of its states; of an environment known only by acting in it,
        observations."""
        world = self.world if world is None else world
        if world is None:
            raise ValueError("this run does not know its world; give world=")
        actions = self.model.source.actions
        size = len(world.actions) if world.continuous is None else world.continuous.size
        if (world.continuous is None) != isinstance(actions, Categorical) or size != actions.size:
            raise ValueError(
                f"world {world.name!r} has other actions than this was trained with; give one with "
                "the same"
            )
        if states is None:
            states = world.states()
        elif not world.settable:
            states = np.asarray(states)
        else:
            states = check_states(world, states)
        if not len(leaves(states)[0]):
            raise ValueError("states is empty; give at least one observation")
        self._checked(world.observe(take(states, slice(1))))
        return world, states

    def _checked(self, observations: Any) -> np.ndarray:
        """Observations of the type, shape and range that this was trained on; others are
        refused."""
        refuse_fork()
        array, seen = np.asarray(observations), self.model.representation
        if array.shape[1:] != seen.centre.shape or not np.issubdtype(array.dtype, np.number):
            raise ValueError(
                f"observations have shape {array.shape} and type {array.dtype}; this estimator was "
                "trained on "
                f"batches of shape (n, {', '.join(map(str, seen.centre.shape))})"
            )
        if not np.isfinite(array).all():
            raise ValueError("observations contain NaN or infinity; mend them first")
        if seen.pixels and array.dtype != np.uint8:
            scaled = "(255 * x).round()" if array.size and array.max() <= 1 else "x"
            raise ValueError(
                f"observations have type {array.dtype}; this estimator was trained on uint8 pixels "
                "from 0 to 255: pass "
                f"them as the environment shows them, or {scaled}.astype(numpy.uint8)"
            )
        distance = (
            0.0 if seen.pixels else float(np.abs(array - np.asarray(seen.centre)).max(initial=0.0))
        )
        if distance > FARTHEST * float(seen.reach):
            raise ValueError(
                f"observations lie up to {distance:.3g} away from the training's mean, whose own "
                "lay up to "
                f"{float(seen.reach):.3g} away; pass them in the units of training, or train on "
                "states like these"
            )
        return array

    def _in_blocks(self, function: Any, observations: np.ndarray) -> np.ndarray:
        values = []
        fitting = max(BLOCK_NUMBERS // max(observations[:1].size, 1), 1)
        # Few observations, as of a reward at each step, are padded to the next power of two only.
        size = min(
            BLOCK, 1 << (fitting.bit_length() - 1), 1 << max(len(observations) - 1, 0).bit_length()
        )
        for i in range(0, len(observations), size):
            block = observations[i : i + size]
            padding = [(0, size - len(block))] + [(0, 0)] * (block.ndim - 1)
            values.append(np.asarray(function(self.model, np.pad(block, padding)))[: len(block)])
        return np.concatenate(values).astype(np.float64) if values else np.zeros(0)


def _posterior(model: ClosedLoopModel, start: Any, end: Any) -> Any:
    """ln q_k(a|s, s') of pairs of observations."""
    rows = jnp.arange(len(start))
    features = model.representation(jnp.concatenate([start, end]))
    return model.posterior(features, rows, rows + len(start))


def repeat(state: State, count: int) -> State:
    """A batch of copies of one state."""
    copies = [np.broadcast_to(np.asarray(x), (count, *np.shape(x))) for x in leaves(state)]
    return type(state)(*copies) if isinstance(state, tuple) else copies[0]


def play(
    world: World, state: State, actions: np.ndarray, rng: np.random.Generator | None = None
) -> State:
    """Where sequences lead from one state, in NumPy; chance is drawn with `rng`."""
    states = repeat(state, len(actions))
    rng = np.random.default_rng(0) if rng is None else rng
    for k in range(actions.shape[1]):
        states = world.step(states, actions[:, k], world.draw_outcome(states, actions[:, k], rng))
    return states
