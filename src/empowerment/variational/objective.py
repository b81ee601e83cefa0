"""The losses of section 4.2, one function each. All values are in nats."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Info(NamedTuple):
    """Diagnostics of an update."""

    decoder_loss: Float[Array, ""]
    """-E[ln q]"""
    source_loss: Float[Array, ""]
    """E[(β (ln q - cost of power) - ln h - ψ)²]; where a model tells the value E, that of ψ alone,
    E[(ψ - β E)²]."""
    bound: Float[Array, ""]
    """Mean of the variational bound over the windows' starts, in nats (while sequences come from
    the source)."""
    psi: Float[Array, ""]
    """Mean of estimated empowerment over the windows' starts, in nats: ψ/β, plus the dual offset
    where power is bounded."""
    gradient: Float[Array, ""]
    """Norm of the gradient."""
    errors: Float[Array, "n"]
    """|β (ln q - cost of power) - ln h - ψ| of each window, or |ψ - β E|. The priorities of start
    states follow these errors."""


def decoder_loss(log_q: Float[Array, "n"]) -> Float[Array, ""]:
    """Maximum-likelihood decoder (section 4.2.1): -E[ln q(a|s', s)]."""
    return -log_q.mean()


def source_error(
    log_q: Float[Array, "n *heads"],
    log_h: Float[Array, "n *_"],
    psi: Float[Array, "n *heads"],
    beta: float,
) -> Float[Array, "n *heads"]:
    """β ln q(a|s, s') - r(s, a) with r = ln h(a|s) + ψ(s), eq. betaU_approx; the decoder's value is
    held fixed.

    The same with ln b(a|s), the log-probability with which the sequence was drawn, in place of ln h
    is ψ's error.
    """
    return beta * jax.lax.stop_gradient(log_q) - log_h - psi


def source_loss(errors: Float[Array, "n *heads"]) -> Float[Array, ""]:
    """L(h, ψ) = E[(β ln q(a|s, s') - ln h(a|s) - ψ(s))²], eq. LossHPsi, of each window's error."""
    return jnp.mean(errors**2)


STEEPEST = 2.0
"""Error in nats beyond which the loss of ψ grows linearly, so that a rare sequence cannot outweigh
all others."""


def psi_loss(errors: Float[Array, "n *heads"]) -> Float[Array, ""]:
    """E[exp(x) - x - 1] with x = β u - ln b - ψ: its minimum is ψ = ln E_b[exp(β u)/b] = ln Z(s),
    whatever b is.

    The squared error has its minimum at the mean of x instead, which is the bound of a source that
    lags behind.
    """
    near = jnp.minimum(errors, STEEPEST)
    return jnp.mean(jnp.exp(near) * (1 + errors - near) - errors - 1)


def psi_error(psi: Float[Array, "n"], values: Float[Array, "n"], beta: float) -> Float[Array, "n"]:
    """ψ(s) - β E, where a model tells the value E (appendix B); the value is held fixed."""
    return psi - beta * jax.lax.stop_gradient(values)


def bound(log_q: Any, log_h: Any, beta: float, log_volume: float = 0.0) -> Any:
    """One sample of the constrained objective, eq. constr_objective: -(1/β) ln h(a|s) + ln q(a|s',
    s).

    Where sequences were multiplied by a gain before they were played, both densities are those of
    the sequences before, and `log_volume` is ln of the volume that a unit of volume takes by it.
    """
    return (log_q - log_volume) - (log_h - log_volume) / beta


def log_normaliser(utilities: Float[Array, "n sequences"], beta: float) -> Float[Array, "n"]:
    """(1/β) ln Z(s) with Z(s) = Σ_a exp(β u(s, a)): empowerment of the optimal source for this
    decoder (4.2.2)."""
    return jax.nn.logsumexp(beta * utilities, axis=-1) / beta
