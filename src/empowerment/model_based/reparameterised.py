"""Stochastic backpropagation through a model of the world (appendix B.2).

Windows start where the archive says. They are played through the model, with the source's and the
model's noise as inputs: s' = f(a, s, ξ_m) with a = h(s, ξ_p). The bound is then differentiated
through actions and dynamics, so that source, decoder and representation all climb it together.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..variational.acting import act
from ..variational.collect import ArchiveCollector, Batch, Policy
from ..variational.config import Config
from ..variational.learner import Info, Model, cost, describe
from ..variational.objective import bound, psi_error
from ..worlds.world import State, World, leaves


class Starts(NamedTuple):
    """Where windows start, and what decides their noise."""

    states: State
    key: Key[Array, ""]


class Imagined(NamedTuple):
    """A collector that only says where windows start."""

    archive: ArchiveCollector
    model: World
    learned_model: bool
    """Whether the model's states are observations."""

    @property
    def on_host(self) -> bool:
        return self.archive.on_host

    def init(self, key: Key[Array, ""]) -> Any:
        return self.archive.init(key)

    def sample_frames(self, key: Key[Array, ""]) -> Any:
        return self.archive.sample_frames(key)

    def collect(self, agents: Any, policy: Policy, *, key: Key[Array, ""]) -> tuple[Any, Starts]:
        """The archive's next starts; windows from them are played through the model."""
        now, again = jax.random.split(key)
        agents, starts = self.archive.next_starts(agents, policy, key=now)
        return agents, Starts(
            jnp.asarray(self.archive.world.observe(starts)) if self.learned_model else starts, again
        )

    def feedback(self, agents: Any, errors: Float[Array, "n"]) -> Any:
        return self.archive.feedback(agents, errors)


def imagine(model: Model, world: World, starts: Starts) -> Batch:
    """A window from each start, differentiable in the source: a = h(s, ξ_p), s' = f(a, s, ξ_m)."""
    draw, play = jax.random.split(starts.key)
    rows = jnp.arange(len(leaves(starts.states)[0]))
    frames = jnp.asarray(world.observe(starts.states))
    actions = model.choose(frames, rows, key=draw)
    ends = jnp.asarray(world.observe(act(world, starts.states, actions, key=play)))
    return Batch(jnp.concatenate([frames, ends]), rows, rows + len(rows), actions)


def reparameterised(
    world: World, model: Model, starts: Starts, config: Config
) -> tuple[Any, tuple[Info, Any]]:
    """Eq. MIBoundRep: minus the bound as a function of ξ_m and ξ_p, power priced, and ψ's squared
    error."""
    batch = imagine(model, world, starts)
    log_q, log_h, psi = model.terms(batch)
    values = bound(log_q - cost(model, batch.actions), log_h, config.beta)
    errors = psi_error(psi, values, config.beta)
    info = describe(model, log_q, log_h, psi, errors, config)
    return info.source_loss - values.mean(), (info, batch.actions)
