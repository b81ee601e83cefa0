"""Learning empowerment with feedback: the agent sees where each action has led before it chooses
the next.

E_k(s) = max over ω(a|s) of I(a; s'|s) + γ E[E_{k-1}(s')]. Windows have one action, drawn uniformly,
so that one decoder serves all k: with the source of k steps to go as its prior, it reads u_k(a, s')
= ln q_k(a|s, s') + γ ψ_{k-1}(s'). The losses are the same as without feedback, for every k at once,
with an EMA of the weights as the target network. Where the horizon is infinite there is one source
and one ψ, which is its own successor's.
"""

import math
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, Shaped

from .collect import Batch
from .config import Config
from .objective import Info, decoder_loss, psi_loss, source_error, source_loss
from .representation import Network, Representation, of_rows
from .sequence import Actions, Sequence


class ClosedLoopModel(eqx.Module):
    """Representation λ, decoder of one action, and for each number of steps to go a source and
    ψ."""

    representation: Representation
    decoder: Sequence
    """Logits of the one action of a window, were it drawn uniformly."""
    sources: Network
    """Logits of the actions for 1, 2, ..., K steps to go."""
    increments: Network
    """What each further step adds to ψ, which lies between 0 and about ln N."""
    actions: Actions = eqx.field(static=True)
    horizon: float = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    power_multiplier: ClassVar[None] = None
    decoder_prior: ClassVar[None] = None

    def __init__(self, config: Config, actions: Actions, sample: Any, *, key: Key[Array, ""]):
        keys = jax.random.split(key, 4)
        self.actions, self.horizon, self.discount = actions, config.horizon, config.discount
        sizes, heads = (config.features, config.hidden), self.heads
        self.representation = Representation(sample, config.features, key=keys[0])
        self.decoder = Sequence(actions, 1, *sizes, 2, "whole", True, config.layers, key=keys[1])
        self.sources = Network(*sizes, heads * actions.size, config.layers, key=keys[2])
        self.increments = Network(*sizes, heads, key=keys[3])

    @property
    def heads(self) -> int:
        """How many horizons have a head of their own: all, or one where there is no end."""
        return 1 if math.isinf(self.horizon) else int(self.horizon)

    @property
    def source(self) -> "ClosedLoopModel":
        """What an estimator asks for the kind of actions."""
        return self

    def empowerment(self, frames: Any, beta: float) -> Float[Array, "n"]:
        """ψ of the whole horizon, in nats."""
        return self.psi(self.representation(frames))

    def psi(self, features: Float[Array, "n features"]) -> Float[Array, "n"]:
        """ψ of the whole horizon."""
        return self.values(features)[:, -1]

    def values(self, features: Float[Array, "n features"]) -> Float[Array, "n heads"]:
        """ψ_k for every number k of steps to go: ψ_k = δ_k + γ ψ_{k-1}, or δ / (1 - γ)."""
        added = self.increments(features)
        if math.isinf(self.horizon):
            return added / (1 - self.discount)
        steps = jnp.arange(self.heads)
        apart = steps[:, None] - steps[None]
        return added @ jnp.where(apart >= 0, self.discount ** jnp.maximum(apart, 0), 0.0).T

    def log_sources(self, features: Float[Array, "n features"]) -> Float[Array, "n heads size"]:
        """ln h_k(a|s) for every k and every action."""
        logits = self.sources(features).reshape(-1, self.heads, self.actions.size)
        return jax.nn.log_softmax(logits)

    def likelihood(
        self, features: Any, start: Int[Array, "n"], end: Int[Array, "n"]
    ) -> Float[Array, "n size"]:
        """The decoder's logits of each action, were it drawn uniformly."""
        return self.decoder.outputs(self.decoder.context(features, start, end), None, 0)

    def posterior(
        self, features: Any, start: Int[Array, "n"], end: Int[Array, "n"]
    ) -> Float[Array, "n heads size"]:
        """ln q_k(a|s, s'), by Bayes' rule from the sources of this model."""
        prior = of_rows(self.log_sources, features, start)
        return jax.nn.log_softmax(prior + self.likelihood(features, start, end)[:, None])

    def read_outcomes(self, batch: Batch) -> Batch:
        """The windows with the mean of u_k over their outcomes, by this model as target network."""
        features = self.representation(batch.frames)
        ends = len(batch.end) // len(batch.start)
        start, action = (jnp.repeat(x, ends) for x in (batch.start, batch.actions[:, 0]))
        log_q = _of(self.posterior(features, start, batch.end), action)
        after = of_rows(self.values, features, batch.end)
        if batch.ended is not None:
            after = jnp.where(batch.ended[:, None], 0.0, after)
        if not math.isinf(self.horizon):
            after = jnp.pad(after, [(0, 0), (1, 0)])[:, :-1]  # one step fewer to go
        utility = log_q + self.discount * after
        return batch._replace(log_q=_expected(utility, batch))

    def view(self, frames: Any, rows: Int[Array, "n"]) -> Float[Array, "n features"]:
        return self.representation(frames)[rows]

    def choose(self, frames: Any, rows: Int[Array, "n"], *, key: Key[Array, ""]) -> Array:
        """One action from the source of the whole horizon for each row."""
        logits = self.log_sources(self.representation(frames))[:, -1]
        return self.actions.sample(logits[rows], key)[:, None]

    def read(
        self,
        features: Float[Array, "frames features"],
        start: Int[Array, "n"],
        end: Int[Array, "n"],
    ) -> Shaped[Array, "n steps ..."]:
        """The most likely action that leads from each start frame to its end frame."""
        return self.likelihood(features, start, end).argmax(-1)[:, None]


def closed_loop_loss(
    known: bool, model: ClosedLoopModel, batch: Batch, config: Config
) -> tuple[Any, tuple[Any, Any]]:
    """The decoder's likelihood, and the squared error of the sources for every number of steps to
    go; ψ by the exponential loss where outcomes are `known`, else by the squared error."""
    batch = jax.lax.stop_gradient(model).read_outcomes(batch) if batch.log_q is None else batch
    utility = cast(Array, batch.log_q)
    features, action = model.representation(batch.frames), batch.actions[:, 0]
    ends = len(batch.end) // len(batch.start)
    start, taken = (jnp.repeat(x, ends) for x in (batch.start, action))
    logits = model.likelihood(features, start, batch.end)
    log_q = _expected(model.actions.log_prob(logits, taken), batch)
    log_h = _of(of_rows(model.log_sources, features, batch.start), action)
    psi = of_rows(model.values, features, batch.start)
    held = jax.lax.stop_gradient(psi) if known else psi
    errors = source_error(utility, log_h, held, 1.0)
    loss = decoder_loss(log_q) + source_loss(errors)
    if known:
        loss = loss + psi_loss(source_error(utility, cast(Array, batch.log_b)[:, None], psi, 1.0))
    info = Info(
        decoder_loss(log_q),
        source_loss(errors),
        (utility - log_h)[:, -1].mean(),
        psi[:, -1].mean(),
        jnp.zeros(()),
        jnp.abs(errors).mean(1),
    )
    return loss, (info, batch.actions)


def _expected(values: Float[Array, "ends *heads"], batch: Batch) -> Float[Array, "n *heads"]:
    """The mean over each window's outcomes, by their probabilities where they are known."""
    several = values.reshape(len(batch.start), -1, *values.shape[1:])
    if batch.odds is None:
        return several.mean(1)
    odds = batch.odds.reshape(*batch.odds.shape, *(1 for _ in values.shape[1:]))
    return (odds * several).sum(1)


def _of(scores: Float[Array, "n heads size"], action: Int[Array, "n"]) -> Float[Array, "n heads"]:
    """The score of each window's action."""
    return jnp.take_along_axis(scores, action[:, None, None], axis=2)[:, :, 0]
