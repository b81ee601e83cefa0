"""Objectives of other estimators, on the networks of this package.

In each the source gets no gradient: it starts uniform and stays so, and ψ learns the information of
uniform sequences.
"""

from typing import Any

import jax
import jax.numpy as jnp

from ..variational.collect import Batch
from ..variational.config import Config
from ..variational.learner import Info, Model, describe
from ..variational.objective import decoder_loss, psi_error

NEGATIVES = 64
"""Sequences among which the true one is found; no estimate exceeds the logarithm of their number.
"""


def uniform(model: Model, batch: Batch, config: Config) -> tuple[Any, tuple[Info, Any]]:
    """Barber and Agakov's bound, E[ln q(a|s, s')] + K ln N, and ψ's squared distance to it."""
    log_q, log_h, psi = model.terms(batch)
    log_h = jax.lax.stop_gradient(log_h)
    errors = psi_error(psi, log_q - log_h, config.beta)
    info = describe(model, log_q, log_h, psi, errors, config)
    return decoder_loss(log_q) + info.source_loss, (info, batch.actions)


def contrastive(model: Model, batch: Batch, config: Config) -> tuple[Any, tuple[Info, Any]]:
    """InfoNCE, E[f(a) - ln (1/M) Σ exp f(a_j)] with f = ln q(a|s, s'); the others are those of
    other windows, since uniform sequences do not depend on where they start."""
    log_q, log_h, psi = model.terms(batch)
    log_h = jax.lax.stop_gradient(log_h)
    features = model.representation(batch.frames)
    context = model.decoder.context(features, batch.start, batch.end)

    def of_others(j: Any) -> Any:
        return model.decoder.log_prob(context, jnp.roll(batch.actions, j, axis=0))

    others = jax.lax.map(jax.checkpoint(of_others), jnp.arange(1, NEGATIVES))
    scores = jnp.concatenate([log_q[None], others])
    values = log_q - jax.nn.logsumexp(scores, axis=0) + jnp.log(NEGATIVES)
    errors = psi_error(psi, values, config.beta)
    info = describe(model, log_q, log_h, psi, errors, config)
    return info.source_loss - values.mean(), (info, batch.actions)


OBJECTIVES = {"uniform": uniform, "contrastive": contrastive}
