"""Makes the built-in worlds known to Gymnasium; what they are made of is imported when one is
made."""

import gymnasium

from .registry import WORLDS


def environment_id(world: str) -> str:
    """The Gymnasium name of a built-in world.

    >>> environment_id("two-rooms")
    'empowerment/TwoRooms-v0'
    """
    return f"empowerment/{''.join(part.capitalize() for part in world.split('-'))}-v0"


def register() -> None:
    """Register every built-in world, once."""
    for world in WORLDS:
        name = environment_id(world)
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="empowerment.worlds.environment:WorldEnv",
                vector_entry_point="empowerment.worlds.environment:WorldVectorEnv",
                max_episode_steps=200,
                kwargs={"world": world},
            )
