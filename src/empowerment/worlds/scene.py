"""A picture of any state, for people."""

import numpy as np

from .grid import COLOURS
from .world import State, World


def scene(world: World, state: State) -> np.ndarray:
    """`uint8[rows, columns, 3]`: the world's own picture; or what the agent sees, where that is
    one; else the agent on its plane, or numbers as a row of grey squares."""
    own = world.picture(state)
    if own is not None:
        return own
    observation = np.asarray(world.observe(state))
    if observation.ndim == 3:
        return observation
    if world.layout is None:
        grey = (255 * (1 - np.clip(observation, 0, 1))).astype(np.uint8)
        return np.repeat(grey[None, :, None], 3, axis=-1)
    picture = np.where(world.layout.walls[..., None], COLOURS["wall"], COLOURS["floor"]).astype(
        np.uint8
    )
    row, column = world.locate(state)
    picture[row, column] = COLOURS["agent"]
    return picture
