"""The landscapes that a world has: every place of the agent, with the rest of the world in a few
telling conditions."""

import numpy as np

from ..worlds.grid import GridState
from ..worlds.world import State, World


def scenes(world: World) -> dict[str, State]:
    """Batches of states by a short description; worlds with a key have a second one, with the key
    in hand."""
    states = world.states()
    if isinstance(states, GridState) and states.keys.shape[-1]:
        return {"key on the floor": states, "key in hand": with_key(states)}
    return {"": states}


def with_key(states: GridState) -> GridState:
    """The same places of the agent, after it has taken the keys."""
    return states._replace(carrying=np.ones_like(states.carrying), keys=np.zeros_like(states.keys))
