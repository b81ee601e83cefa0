"""A model learned from experience: one step of a world as a network with Gaussian output, trained
by likelihood."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from ..variational.acting import draw_outcome
from ..variational.keys import seed_key
from ..variational.representation import weights
from ..variational.sequence import actions_of
from ..worlds.world import World, leaves, take

NARROWEST = -6.0
"""Smallest logarithm of a standard deviation, in units of the spread of the changes."""
STEPS = 20
"""Steps that an agent plays in a row."""
BATCH = 512


class Transitions(NamedTuple):
    """One step of many agents."""

    before: Float[Array, "n width"]
    action: Float[Array, "n size"]
    after: Float[Array, "n width"]


class HeldOut(NamedTuple):
    """How well a model foretells steps that it was not trained on."""

    nats: float
    """Mean of -ln p(x'|x, a)."""
    rms: float
    """Root mean square error of the mean, as a share of the root mean square change."""
    transitions: int
    """How many steps the model was trained on."""


class Network(eqx.Module):
    """Mean of a change and a factor of its covariance, from observation and action: two layers and
    a skip.

    The parts of an observation share noise (a push moves velocity and place), so the covariance is
    a whole matrix L Lᵀ.
    """

    centre: Float[Array, "inputs"]
    spread: Float[Array, "inputs"]
    unit: Float[Array, "width"]
    """Spread of the changes."""
    layers: tuple[Float[Array, "inputs outputs"], ...]
    biases: tuple[Float[Array, "outputs"], ...]
    skip: Float[Array, "inputs outputs"]

    def __init__(self, data: Transitions, hidden: int, *, key: Key[Array, ""]):
        inputs, change = (
            jnp.concatenate([data.before, data.action], axis=1),
            data.after - data.before,
        )
        self.centre, self.spread = inputs.mean(0), inputs.std(0) + 1e-6
        self.unit = jnp.sqrt((change**2).mean(0)) + 1e-6
        parts = change.shape[1]
        keys, width, outputs = (
            jax.random.split(key, 2),
            inputs.shape[1],
            parts + parts * (parts + 1) // 2,
        )
        self.layers = (
            weights(keys[0], width, hidden),
            weights(keys[1], hidden, hidden),
            jnp.zeros((hidden, outputs)),
        )
        self.biases = (jnp.zeros(hidden), jnp.zeros(hidden), jnp.zeros(outputs))
        self.skip = jnp.zeros((width, outputs))

    def __call__(self, before: Any, action: Any) -> tuple[Any, Any]:
        """Mean of the change, and the lower triangular factor of its covariance."""
        centre, spread, unit = jax.lax.stop_gradient((self.centre, self.spread, self.unit))
        x = z = (jnp.concatenate([before, action], axis=-1) - centre) / spread
        for matrix, bias in zip(self.layers[:-1], self.biases[:-1], strict=True):
            x = jax.nn.silu(x @ matrix + bias)
        parts = len(self.unit)
        mean, diagonal, lower = jnp.split(
            x @ self.layers[-1] + self.biases[-1] + z @ self.skip, (parts, 2 * parts), -1
        )
        factor = jnp.exp(jnp.maximum(diagonal, NARROWEST))[..., None] * jnp.eye(parts)
        rows, columns = np.tril_indices(parts, -1)
        return unit * mean, unit[:, None] * factor.at[..., rows, columns].set(lower)


class LearnedWorld(World):
    """A world as a network foretells it; its states are observations."""

    outcomes = None

    def __init__(self, like: World, network: Network, held_out: HeldOut):
        self.name, self.actions, self.continuous = (
            f"learned {like.name}",
            like.actions,
            like.continuous,
        )
        self.network, self.held_out, self._like = network, held_out, like
        self.start = np.asarray(like.observe(like.start))
        self.noise = len(self.start)

    def step(self, state: Any, action: Any, outcome: Any) -> Any:
        mean, factor = self.network(state, action)
        return state + mean + (factor @ outcome[..., None])[..., 0]

    def observe(self, state: Any) -> Any:
        return state

    def states(self) -> np.ndarray:
        return np.asarray(self._like.observe(self._like.states()))

    def terminal(self, state: Any) -> Any:
        return jnp.zeros(jnp.shape(state)[:-1], bool)


def log_likelihood(network: Network, data: Transitions) -> Float[Array, "n"]:
    """ln p(x'|x, a) of each step."""
    mean, factor = network(data.before, data.action)
    error = data.after - data.before - mean
    score = jax.scipy.linalg.solve_triangular(factor, error[..., None], lower=True)[..., 0]
    spread = jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1))
    return (-0.5 * score**2 - spread - 0.5 * jnp.log(2 * jnp.pi)).sum(-1)


def learn_world(
    world: World, *, transitions: int = 2**14, hidden: int = 64, updates: int = 1500, seed: int = 0
) -> LearnedWorld:
    """Learn one step of a world by likelihood from agents that act at random; an eighth of the
    steps is held out."""
    gather_key, network_key, fit_key = jax.random.split(seed_key(seed, "model"), 3)
    data = gather(world, transitions, key=gather_key)
    held = len(data.before) // 8
    seen, unseen = (
        jax.tree.map(lambda x, part=part: x[part], data)
        for part in (slice(held, None), slice(held))
    )
    network = _fitted(Network(seen, hidden, key=network_key), seen, updates, key=fit_key)
    mean, _ = network(unseen.before, unseen.action)
    change = unseen.after - unseen.before
    rms = jnp.sqrt(((change - mean) ** 2).mean() / (change**2).mean())
    held_out = HeldOut(float(-log_likelihood(network, unseen).mean()), float(rms), len(seen.before))
    return LearnedWorld(world, network, held_out)


def gather(world: World, count: int, *, key: Key[Array, ""]) -> Transitions:
    """Steps of agents that start in random states and act at random, agents in random order."""
    agents, starts = -(-count // STEPS), jax.tree.map(jnp.asarray, world.states())
    pick, key = jax.random.split(key)
    states = take(starts, jax.random.randint(pick, (agents,), 0, len(leaves(starts)[0])))
    rows = []
    for step_key in jax.random.split(key, STEPS):
        draw, outcome = jax.random.split(step_key)
        action = actions_of(world).uniform((agents,), draw)
        after = world.step(states, action, draw_outcome(world, states, action, key=outcome))
        rows.append(
            Transitions(
                jnp.asarray(world.observe(states)), action, jnp.asarray(world.observe(after))
            )
        )
        states = after
    # Agent after agent, so that those held out share no agent with the rest.
    return jax.tree.map(lambda *x: jnp.stack(x, axis=1).reshape(agents * STEPS, -1), *rows)


@eqx.filter_jit
def _fitted(network: Network, data: Transitions, updates: int, *, key: Key[Array, ""]) -> Network:
    optimiser = optax.adam(optax.linear_schedule(5e-3, 0.0, updates))

    def step(carry: Any, key: Key[Array, ""]) -> tuple[Any, None]:
        network, state = carry
        some = jax.random.randint(key, (BATCH,), 0, len(data.before))
        batch = jax.tree.map(lambda x: x[some], data)
        gradient = jax.grad(lambda n: -log_likelihood(n, batch).mean())(network)
        change, state = optimiser.update(gradient, state, network)
        return (optax.apply_updates(network, change), state), None

    carry = network, optimiser.init(network)  # pyright: ignore[reportArgumentType]
    (network, _), _ = jax.lax.scan(step, carry, jax.random.split(key, updates))
    return network
