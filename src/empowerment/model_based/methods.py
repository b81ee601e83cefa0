"""What learns and from what, for each method of appendix B: parts of the run that `emp.train`
makes."""

from functools import partial
from typing import Any

from ..variational.collect import LARGEST_TABLE, archive, living, tabulate
from ..variational.config import Config
from ..variational.learner import Learner
from ..variational.sequence import actions_for
from ..worlds.world import World
from .learned import learn_world
from .reparameterised import Imagined, reparameterised
from .weighted import amortised, weighted


def prepare_with_model(world: World, config: Config, seed: int) -> tuple[Learner, Any]:
    """Learner and experience for methods that need a model."""
    if config.beta != 1:
        raise ValueError(
            f"beta={config.beta} is for method='variational' only; leave it out, or choose that "
            "method"
        )
    return (
        _importance(world, config, seed)
        if config.method == "importance"
        else _reparameterised(world, config, seed)
    )


def _importance(world: World, config: Config, seed: int) -> tuple[Learner, Any]:
    table = tabulate(world, LARGEST_TABLE)
    if table is None:
        raise ValueError(
            f"method='importance' needs a table of outcomes with at most {LARGEST_TABLE} states, "
            "which world "
            f"{world.name!r} does not have; use method='variational', or model_based.importance "
            "for one state"
        )
    small, frames, _ = table
    return Learner(config, actions_for(world, config), amortised), weighted(
        small, frames, living(small), config, seed
    )


def _reparameterised(world: World, config: Config, seed: int) -> tuple[Learner, Any]:
    if world.continuous is None or world.on_host:
        raise ValueError(
            f"method={config.method!r} needs continuous actions and dynamics that JAX can "
            "differentiate, which world "
            f"{world.name!r} does not have; use method='variational'"
        )
    acting = archive(world, config)
    learned = config.method == "learned-model"
    model = learn_world(world, seed=seed) if learned else world
    return Learner(config, actions_for(world, config), partial(reparameterised, model)), Imagined(
        acting, model, learned
    )
