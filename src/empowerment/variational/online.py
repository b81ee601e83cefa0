"""An estimator that keeps learning while it is an agent's reward."""

from typing import Any

import jax

from ..worlds.memory import explored
from ..worlds.world import World
from .config import is_whole, make_config
from .estimator import Estimator
from .soundness import refuse_bad_update
from .training import prepare


class Online(Estimator):
    """Empowerment that is learned while it is an agent's reward: `EmpowermentReward(env,
    Online(world, horizon))`.

    The agent's actions do not come from the source, so windows of them would neither fit the
    decoder nor give a bound. This estimator plays windows of its own, in `world`: an exact one, or
    copies of the environment that the agent does not touch. It makes one update per `every`
    rewarded observations until all its `updates` are made, and is fixed from then on.
    `settings` are the fields of `Config`.
    """

    def __init__(
        self,
        world: World,
        horizon: int | float = 5,
        every: int = 64,
        seed: int = 0,
        **settings: Any,
    ):
        if not is_whole(every, 1):
            raise ValueError(f"every={every!r} must be a whole number of 1 or more")
        world = explored(world, seed).world
        run = prepare(world, make_config(world, horizon, settings), seed)
        self._carry, self._every, self._paid = run.init(seed), every, 0
        self._advance = run.advance if run.collector.on_host else jax.jit(run.advance)
        super().__init__(self._carry.learner.average, run.learner.config, world)
        self.updates = 0
        """How many updates were made."""

    def learn(self, observations: int) -> None:
        """So many observations more are about to be paid for: make the updates that are due."""
        self._paid += observations
        due = min(self._paid // self._every, self.config.updates)
        for _ in range(due - self.updates):
            after, info = self._advance(self._carry)
            refuse_bad_update(info, int(self._carry.learner.updates))
            self._carry = after
        self.updates, self.model = due, self._carry.learner.average
