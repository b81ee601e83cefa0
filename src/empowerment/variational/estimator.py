"""A trained estimator: NumPy in and out, whatever it was trained on."""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..landscape import Landscape
from ..worlds.world import State, World, leaves, take
from .experience import Batch, act
from .learner import Config, Model
from .objective import bound, log_normaliser

BLOCK = 256  # observations encoded together; the last block is padded so that one compilation serves all
MOST_SEQUENCES = 2**17


class Bound(NamedTuple):
    """The Monte-Carlo estimate of the variational bound, one for each state, in nats."""

    nats: np.ndarray
    error: np.ndarray
    """Standard error."""


class Estimator:
    """Learned empowerment. `emp.train` and `emp.load` return it."""

    def __init__(self, model: Model, config: Config, world: World | None = None):
        self.model, self.config, self.world = model, config, world
        self._psi = eqx.filter_jit(lambda m, x: m.psi(m.representation(x)) / config.beta)

    def __repr__(self) -> str:
        return f"<estimator of {self.world!r}, horizon {self.config.horizon}>"

    def empowerment(self, observations: Any) -> np.ndarray:
        """ψ(s)/β in nats, one for each observation (`uint8[n, H, W, 3]` or `float[n, size]`)."""
        return self._in_blocks(self._psi, self._checked(observations))

    def landscape(self, world: World | None = None, states: State | None = None) -> Landscape:
        """Learned empowerment of the states of a world, by default those of `emp.exact`."""
        world = self._world(world)
        states = world.states() if states is None else states
        return Landscape.of(world, self.config.horizon, states, self.empowerment(np.asarray(world.observe(states))))

    def source(self, observation: Any, samples: int = 1, seed: int = 0) -> np.ndarray:
        """Sequences drawn from the source h(a|s) at one observation, `int[samples, K]`."""
        frames = self._checked(np.asarray(observation)[None])
        rows = jnp.zeros(samples, jnp.int32)
        return np.asarray(self.model.choose(jnp.asarray(frames), rows, key=jax.random.key(seed)))

    def plan(self, observation: Any, goal: Any) -> np.ndarray:
        """The decoder as a planner: a likely sequence from one observation to another, `int[K]`."""
        frames = self._checked(np.stack([np.asarray(observation), np.asarray(goal)]))
        decoder, zero = self.model.decoder, jnp.zeros(1, jnp.int32)
        features = self.model.representation(jnp.asarray(frames))
        return np.asarray(decoder.mode(decoder.context(features, zero, zero + 1))[0])

    def bound(
        self, world: World | None = None, states: State | None = None, samples: int = 1000, seed: int = 0
    ) -> Bound:
        """The variational bound at each state, from sequences drawn from the source and played in the world."""
        world = self._world(world)
        states = world.states() if states is None else states

        @eqx.filter_jit
        def one(model: Model, state: Any, key: Any) -> tuple[Any, Any]:
            choose_key, act_key = jax.random.split(key)
            here = jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (samples, *np.shape(x))), state)
            frame = world.observe(take(here, slice(0, 1)))
            actions = model.choose(frame, jnp.zeros(samples, jnp.int32), key=choose_key)
            ends = world.observe(act(world, here, actions, key=act_key))
            values = self._values(model, jnp.concatenate([frame, ends]), actions)
            return values.mean(), values.std() / np.sqrt(samples - 1)

        keys = jax.random.split(jax.random.key(seed), len(leaves(states)[0]))
        rows = [one(self.model, take(states, i), key) for i, key in enumerate(keys)]
        return Bound(*(np.array(column, np.float64) for column in zip(*rows, strict=True)))

    def _values(self, model: Model, frames: Any, actions: Any) -> Any:
        """Samples of the bound: frame 0 is the start, the others are the ends."""
        rows = jnp.arange(len(actions), dtype=jnp.int32)
        log_q, log_h, _ = model.terms(Batch(frames, jnp.zeros_like(rows), rows + 1, actions))
        return bound(log_q, log_h, self.config.beta)

    def log_z(self, world: World | None = None, states: State | None = None) -> np.ndarray:
        """(1/β) ln Z(s) by listing all sequences of a deterministic world: what the best source would have."""
        world = self._world(world)
        states = world.states() if states is None else states
        sequences = self._sequences(world)

        @eqx.filter_jit
        def one(model: Model, state: Any) -> Any:
            here = jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (len(sequences), *np.shape(x))), state)
            frame = world.observe(take(here, slice(0, 1)))
            ends = world.observe(act(world, here, sequences, key=jax.random.key(0)))
            rows = jnp.arange(len(sequences), dtype=jnp.int32)
            batch = Batch(jnp.concatenate([frame, ends]), jnp.zeros_like(rows), rows + 1, sequences)
            return log_normaliser(model.terms(batch)[0][None], self.config.beta)[0]

        count = len(leaves(states)[0])
        return np.array([one(self.model, take(states, i)) for i in range(count)], np.float64)

    def _sequences(self, world: World) -> Any:
        count = len(world.actions) ** self.config.horizon
        if not world.deterministic or count > MOST_SEQUENCES:
            raise ValueError(
                f"log Z needs a deterministic world of at most {MOST_SEQUENCES:,} sequences; {world.name!r} has "
                f"{count:,}{'' if world.deterministic else ' and chance'}; use .bound instead"
            )
        every = itertools.product(range(len(world.actions)), repeat=self.config.horizon)
        return jnp.asarray(np.array(list(every), np.int32))

    def _world(self, world: World | None) -> World:
        world = self.world if world is None else world
        if world is None:
            raise ValueError("this run does not know its world; give world=")
        return world

    def _checked(self, observations: Any) -> np.ndarray:
        array, shape = np.asarray(observations), self.model.representation.centre.shape
        if array.shape[1:] != shape or not np.issubdtype(array.dtype, np.number):
            raise ValueError(
                f"observations have shape {array.shape} and type {array.dtype}; this estimator was trained on "
                f"batches of shape (n, {', '.join(map(str, shape))})"
            )
        if not np.isfinite(array).all():
            raise ValueError("observations contain NaN or infinity; mend them first")
        return array

    def _in_blocks(self, function: Any, observations: np.ndarray) -> np.ndarray:
        values = []
        for i in range(0, len(observations), BLOCK):
            block = observations[i : i + BLOCK]
            padding = [(0, BLOCK - len(block))] + [(0, 0)] * (block.ndim - 1)
            values.append(np.asarray(function(self.model, np.pad(block, padding)))[: len(block)])
        return np.concatenate(values).astype(np.float64) if values else np.zeros(0)
