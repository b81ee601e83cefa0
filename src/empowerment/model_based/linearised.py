"""Empowerment of a smooth world linearised around its quiet trajectory: a closed form to compare
with."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..gaussian import gaussian_gains, water_filling
from ..landscape import Landscape
from ..worlds.world import State, World, leaves, take


def linearised(world: World, horizon: int, states: State | None = None) -> Landscape:
    """Water-filling over the K-step Jacobians of the state by actions and by noise, for worlds of
    bounded power.

    Exact where the world is linear; elsewhere the error is of second order in the sizes of action
    and noise.
    """
    continuous = world.continuous
    if continuous is None or continuous.power is None or not world.noise:
        raise ValueError(
            f"world {world.name!r} is not smooth with noise and bounded power; use emp.exact or "
            "emp.train"
        )
    states = world.states() if states is None else states
    nats = []
    for i in range(len(leaves(states)[0])):
        by_action, by_noise = _jacobians(world, take(states, i), horizon, continuous.size)
        gains = gaussian_gains(by_action, by_noise @ by_noise.T)
        nats.append(water_filling(gains, horizon * continuous.power)[0])
    return Landscape.of(world, horizon, states, nats)


def _jacobians(
    world: World, state: State, horizon: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of the end state, all numbers in a row, by all actions and by all noise."""

    def end(actions: Any, noise: Any) -> Any:
        now = jax.tree.map(jnp.asarray, state)
        for action, outcome in zip(actions, noise, strict=True):
            now = world.step(now, action, outcome)
        return jnp.concatenate([x.reshape(-1) for x in leaves(now)])

    shapes = jnp.zeros((horizon, size)), jnp.zeros((horizon, world.noise))
    by_action, by_noise = jax.jacobian(end, argnums=(0, 1))(*shapes)
    return tuple(np.asarray(x, np.float64).reshape(len(x), -1) for x in (by_action, by_noise))  # pyright: ignore
