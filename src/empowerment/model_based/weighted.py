"""Learning from importance sampling: the weights of appendix B.1 at each state of a tabulated
world, amortised.

The estimates are made once, at every state that windows may start in. Networks then learn them: ψ
their value, the source the weighted sequences, and the decoder to read these from where they lead.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ..channel import rows_of
from ..variational.acting import act
from ..variational.collect import Batch, Draw
from ..variational.config import Config
from ..variational.learner import Info, Model, describe
from ..variational.objective import psi_error
from ..worlds.table import TableWorld
from .importance import Discrete, importance

DRAWS = 10
"""Outcomes of each sequence, J."""


class FixedCollector(NamedTuple):
    """Windows whose sequences are drawn by their weights."""

    world: TableWorld
    frames: Any
    starts: Int[Array, "starts"]
    sequences: Int[Array, "starts sequences steps"]
    levels: Float[Array, "starts sequences"]
    """Weights, added up."""
    values: Float[Array, "starts"]
    batch: int

    @property
    def on_host(self) -> bool:
        return False

    def init(self, key: Key[Array, ""]) -> tuple[()]:
        """Nothing: windows start anywhere."""
        return ()

    def sample_frames(self, key: Key[Array, ""]) -> Any:
        return self.frames

    def collect(
        self, agents: tuple[()], policy: Draw, *, key: Key[Array, ""]
    ) -> tuple[tuple[()], Batch]:
        """Windows from random starts, by the weights; the source is not asked."""
        keys = jax.random.split(key, 3)
        pick = jax.random.randint(keys[0], (self.batch,), 0, len(self.starts))
        drawn = (jax.random.uniform(keys[1], (self.batch, 1)) > self.levels[pick, :-1]).sum(-1)
        starts, actions = self.starts[pick], self.sequences[pick, drawn]
        ends = act(self.world, starts, actions, key=keys[2])
        return agents, Batch(self.frames, starts, ends, actions, self.values[pick])

    def feedback(self, agents: tuple[()], errors: Float[Array, "n"]) -> tuple[()]:
        return agents


def weighted(
    world: TableWorld, frames: Any, starts: np.ndarray, config: Config, seed: int
) -> FixedCollector:
    """Importance sampling at every start, from uniform sequences."""
    rng = np.random.default_rng(seed)
    sequences = rng.integers(
        len(world.actions), size=(len(starts), config.sequences, config.window)
    )
    estimates = [
        importance(
            Discrete(rows_of(world, np.int32(start), own)), DRAWS, seed=int(rng.integers(2**31))
        )
        for start, own in zip(starts, sequences, strict=True)
    ]
    levels = np.cumsum([estimate.weights for estimate in estimates], axis=1)
    return FixedCollector(
        world,
        jnp.asarray(frames),
        jnp.asarray(starts, jnp.int32),
        jnp.asarray(sequences, jnp.int32),
        jnp.asarray(levels / levels[:, -1:], jnp.float32),
        jnp.asarray([estimate.nats for estimate in estimates], jnp.float32),
        config.batch,
    )


def amortised(model: Model, batch: Batch, config: Config) -> tuple[Any, tuple[Info, Any]]:
    """Likelihood of the weighted sequences under decoder and source, and ψ's squared distance to
    the estimates."""
    assert batch.value is not None
    log_q, log_h, psi = model.terms(batch)
    errors = psi_error(psi, batch.value, config.beta)
    info = describe(model, log_q, log_h, psi, errors, config)
    return info.decoder_loss - log_h.mean() + info.source_loss, (info, batch.actions)
