"""One step of learning, as an `init` / `update` pair of pure functions (algorithm 1)."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key, Shaped

from .closed_loop import ClosedLoopModel
from .collect import Batch
from .config import Config
from .devices import REPLICATED, SHARDED, mean_over_devices, per_device
from .objective import Info, bound, decoder_loss, psi_loss, source_error, source_loss
from .pictures import distinct
from .representation import Network, Representation, in_blocks, of_rows
from .sequence import Actions, Categorical, Context, Gaussian, Prefix, Sequence

POWER_RATE = 0.02
"""First step of the power multiplier, as a share of its first value, for each 100 % of power beyond
what is allowed."""
RISE = 0.1
"""Share of the updates over which the learning rate rises."""
MUON_RMS = 0.5
"""Root mean square of Muon's change of a matrix for a learning rate of 1. Adam's is about 1, so
that one rate serves both; half of it was as good as a rate of its own (docs/experiments.md)."""
READ = 2048
"""Ends that are read at once, where each distinct one is read once."""


class Psi(eqx.Module):
    """ψ(s), a two-layer network; empowerment is ψ/β (section 4.2.2)."""

    network: Network

    def __init__(self, features: int, hidden: int, layer_norm: bool = True, *, key: Key[Array, ""]):
        self.network = Network(features, hidden, 1, layer_norm=layer_norm, key=key)

    def __call__(self, features: Float[Array, "n features"]) -> Float[Array, "n"]:
        return self.network(features)[:, 0]


class Model(eqx.Module):
    """Representation λ, decoder ξ, source and psi θ; and where power is bounded, the multiplier of
    that constraint."""

    representation: Representation
    decoder: Sequence
    source: Sequence
    psi: Psi
    power_multiplier: Float[Array, ""] | None
    """Nats for one unit of |a|²: the multiplier of the constraint on a sequence's power."""
    decoder_prior: Float[Array, ""] | None
    """The share of actions that come from the source. The decoder's logits are added to their
    log-probabilities, as Bayes' rule does, so that it need not follow the source; None where
    actions are continuous."""

    def __init__(self, config: Config, actions: Actions, sample: Any, *, key: Key[Array, ""]):
        keys = jax.random.split(key, 4)
        sizes = (actions, config.window, config.features, config.hidden)
        layer_norm = not config.as_printed
        prefix: Prefix = "previous" if config.as_printed else "whole"
        self.representation = Representation(sample, config.features, layer_norm, key=keys[0])
        self.decoder = Sequence(*sizes, 2, prefix, layer_norm, config.layers, key=keys[1])
        self.source = Sequence(*sizes, 1, prefix, layer_norm, config.layers, key=keys[2])
        self.psi = Psi(config.features, config.hidden, layer_norm, key=keys[3])
        self.power_multiplier = (
            None
            if actions.power is None
            else jnp.asarray(0.5 / (config.beta * actions.scale**2), jnp.float32)
        )
        acting = config.method == "variational" and isinstance(actions, Categorical)
        self.decoder_prior = jnp.zeros(()) if acting and not config.as_printed else None

    def empowerment(self, frames: Any, beta: float) -> Float[Array, "n"]:
        """ψ(s)/β in nats; where power is bounded, ψ/β + multiplier * allowed power."""
        return self.psi(self.representation(frames)) / beta + self.dual_offset()

    def dual_offset(self) -> Any:
        """What the allowed power of a sequence costs: ψ/β has it subtracted (Lagrangian
        duality)."""
        power = self.source.actions.power
        return (
            0.0
            if self.power_multiplier is None or power is None
            else self.power_multiplier * self.source.horizon * power
        )

    def terms(self, batch: Batch) -> tuple[Float[Array, "n"], Float[Array, "n"], Float[Array, "n"]]:
        """ln q(a|s, s'), ln h(a|s) and ψ(s) of each window.

        Where a sequence has several ends, the first is their mean, so that the source is fitted to
        little noise, while its gradient is that of the first end only: to fit the decoder to one
        takes a third of the time. Where a steadier decoder has read them already, only the first is
        read.
        """
        features, ends = self.representation(batch.frames), batch.end.reshape(len(batch.start), -1)
        by_source = self.source.steps(self.source.context(features, batch.start), batch.actions)
        log_q = self._log_q(features, by_source, batch.start, ends[:, :1], batch.actions)
        if ends.shape[1] > 1 and batch.log_q is None:
            fixed, seen, prior = jax.lax.stop_gradient((self, features, by_source))
            others = fixed._log_q(seen, prior, batch.start, ends[:, 1:], batch.actions)
            mean = (log_q + (ends.shape[1] - 1) * others) / ends.shape[1]
            log_q = log_q + jax.lax.stop_gradient(mean - log_q)
        return (
            log_q,
            self.source.score(by_source, batch.actions),
            of_rows(self.psi, features, batch.start),
        )

    def read_outcomes(self, batch: Batch) -> Batch:
        """The same windows, and what this decoder reads of all their ends, with this source as
        prior.

        Most ends of a sequence are the same place: each is read once, however often it was played.
        """
        features = self.representation(batch.frames)
        by_source = self.source.steps(self.source.context(features, batch.start), batch.actions)
        ends = len(batch.end) // len(batch.start)
        window = jnp.repeat(jnp.arange(len(batch.start)), ends)
        order, count, rows = distinct((batch.start[window], batch.actions[window], batch.end))
        read = in_blocks(
            partial(_read, ends),
            (self, features, by_source, batch),
            order,
            min(READ, len(order)),
            count,
        )
        return batch._replace(log_q=read[rows].reshape(-1, ends).mean(1))

    def _log_q(
        self,
        features: Any,
        by_source: Any,
        start: Int[Array, "n"],
        ends: Int[Array, "n ends"],
        actions: Any,
    ) -> Float[Array, "n"]:
        """ln q(a|s, s'), its mean over the ends, where the source's outputs for each step are
        `by_source`."""
        start, actions, *by_source = [
            jnp.repeat(x, ends.shape[1], axis=0) for x in (start, actions, *by_source)
        ]
        by_decoder = self.decoder.steps(
            self.decoder.context(features, start, ends.reshape(-1)), actions
        )
        steps = [self._posterior(*both) for both in zip(by_decoder, by_source, strict=True)]
        return self.decoder.score(steps, actions).reshape(ends.shape).mean(1)

    def read(
        self,
        features: Float[Array, "frames features"],
        start: Int[Array, "n"],
        end: Int[Array, "n"],
    ) -> Shaped[Array, "n steps ..."]:
        """The decoder as a planner: the likeliest action at each step from one frame to another."""
        context, here = (
            self.decoder.context(features, start, end),
            self.source.context(features, start),
        )
        before, given, chosen = None, None, []
        for k in range(self.decoder.horizon):
            outputs = self._posterior(
                self.decoder.outputs(context, before, k), self.source.outputs(here, given, k)
            )
            chosen.append(self.decoder.actions.mode(outputs))
            before = self.decoder.extend(before, chosen[-1], k)
            given = self.source.extend(given, chosen[-1], k)
        return jnp.stack(chosen, axis=1)

    def _posterior(
        self, likely: Float[Array, "n outputs"], given: Float[Array, "n outputs"]
    ) -> Array:
        """Bayes' rule for one step: how likely the agent was to take each action, held fixed, and
        how likely each makes the end."""
        if self.decoder_prior is None:
            return likely
        own, share = jax.lax.stop_gradient((jax.nn.log_softmax(given), self.decoder_prior))
        return likely + jnp.logaddexp(jnp.log(share) + own, jnp.log((1 - share) / own.shape[-1]))

    def view(self, frames: Any, rows: Int[Array, "n"]) -> Context:
        """What the source sees, for each row."""
        return self.source.context(self.representation(frames), rows)

    def choose(self, frames: Any, rows: Int[Array, "n"], *, key: Key[Array, ""]) -> Array:
        """One sequence from the source for each row."""
        return self.source.sample(self.view(frames, rows), key=key)


def _read(
    ends: int, known: tuple[Model, Any, Any, Batch], played: Int[Array, "n"]
) -> Float[Array, "n"]:
    """ln q of the ends at the indices `played` of `batch.end`, which holds `ends` consecutive ends
    for each window."""
    model, features, given, batch = known
    window = played // ends
    prior = [x[window] for x in given]
    return model._log_q(
        features, prior, batch.start[window], batch.end[played][:, None], batch.actions[window]
    )


class State(NamedTuple):
    """What is carried from update to update."""

    model: Any
    """Model: the weights as they are learned."""
    average: Any
    """Model, exponential moving average (EMA) of the weights: what estimates are made with."""
    optimiser: Any
    updates: Int[Array, ""]
    """How many updates were made."""


INFO = Info(*[REPLICATED] * 5, errors=SHARDED)  # pyright: ignore[reportArgumentType]
"""Sharding of `Info`: all fields are replicated on every device, except `errors`."""

Objective = Callable[..., Any]
"""`objective(model, batch, config)` gives the loss and, only looked at, (Info, actions of the
windows)."""


def exponential_psi(model: Model, batch: Batch, config: Config) -> tuple[Any, tuple[Info, Any]]:
    """The decoder's likelihood, the source's squared error with ψ held fixed, and ψ's exponential
    loss; λ gets all gradients (algorithm 1). Right where ln q is an average over the outcomes of
    each sequence, or there is only one."""
    log_q, log_h, psi = model.terms(batch)
    utility = _utility(model, log_q, batch)
    errors = source_error(utility, log_h, jax.lax.stop_gradient(psi), config.beta)
    info = describe(model, log_q, log_h, psi, errors, config)
    own = psi_loss(source_error(utility, cast(Array, batch.log_b), psi, config.beta))
    return info.decoder_loss + info.source_loss + own, (info, batch.actions)


def squared_psi(model: Model, batch: Batch, config: Config) -> tuple[Any, tuple[Info, Any]]:
    """The same with one squared error for source and ψ, as printed. Where chance decides and only
    one outcome of a sequence is known, to exponentiate its noise would lift ψ by half its variance.
    """
    log_q, log_h, psi = model.terms(batch)
    errors = source_error(_utility(model, log_q, batch), log_h, psi, config.beta)
    info = describe(model, log_q, log_h, psi, errors, config)
    return info.decoder_loss + info.source_loss, (info, batch.actions)


def _utility(model: Model, log_q: Any, batch: Batch) -> Any:
    """ln q of each sequence, by the EMA decoder where it has read the batch, less what its power
    costs."""
    return (log_q if batch.log_q is None else batch.log_q) - cost(model, batch.actions)


def describe(model: Model, log_q: Any, log_h: Any, psi: Any, errors: Any, config: Config) -> Info:
    """What is looked at, from the terms of a batch."""
    value, mean = (
        bound(log_q, log_h, config.beta).mean(),
        psi.mean() / config.beta + model.dual_offset(),
    )
    return Info(
        decoder_loss(log_q), source_loss(errors), value, mean, jnp.zeros(()), jnp.abs(errors)
    )


class Learner(NamedTuple):
    """The pair of functions, for one configuration."""

    config: Config
    actions: Actions
    objective: Objective = squared_psi
    mesh: Mesh | None = None
    """Devices that windows are spread over."""

    def init(self, sample: Any, *, key: Key[Array, ""]) -> State:
        """`sample`: observations, for their shape and scale."""
        kind = ClosedLoopModel if self.config.feedback else Model
        model: Any = self._with_prior(
            kind(self.config, self.actions, sample, key=key), jnp.zeros((), jnp.int32)
        )
        return State(
            model,
            jax.tree.map(jnp.copy, model),
            self._optimiser().init(model),
            jnp.zeros((), jnp.int32),
        )

    def update(self, state: State, batch: Any) -> tuple[State, Info]:
        """One step on the objective."""
        config = self.config
        gradient_of = per_device(
            self.mesh,
            self._gradient,
            (REPLICATED, REPLICATED, SHARDED),
            (REPLICATED, INFO, SHARDED),
        )
        gradient, info, actions = gradient_of(state.model, state.average, batch)
        change: Any
        change, optimiser = self._optimiser().update(gradient, state.optimiser, state.model)
        model = self._with_power_multiplier(
            optax.apply_updates(state.model, change), actions, state.updates
        )
        # At first the mean of all updates so far, so that the first weights are forgotten.
        decay = jnp.minimum(config.ema, state.updates / (state.updates + 1))
        average = model
        if config.ema:
            average = jax.tree.map(lambda a, b: decay * a + (1 - decay) * b, state.average, model)
        model, average = (self._with_prior(x, state.updates + 1) for x in (model, average))
        new = State(model, average, optimiser, state.updates + 1)  # pyright: ignore[reportArgumentType]
        return new, info._replace(
            gradient=jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(gradient)))
        )

    def _gradient(self, model: Any, average: Any, batch: Any) -> tuple[Any, Info, Any]:
        """Gradient and losses over the windows of all devices; errors and actions of this one's
        windows.

        The source is fitted to what the EMA model reads. Its decoder is nearer to the truth, and
        its source, which the decoder's logits are added to, holds the present one where it is. With
        the present one as prior, each step would add to the one before, noise included.
        """
        if self.config.ema and self.config.method == "variational":
            batch = average.read_outcomes(batch)
        gradient_of = jax.value_and_grad(self.objective, has_aux=True)
        (_, (info, actions)), gradient = gradient_of(model, batch, self.config)
        gradient, means = mean_over_devices(self.mesh, (gradient, info[:-1]))
        return gradient, Info(*means, errors=info.errors), actions

    def choose(
        self, state: State, frames: Any, rows: Int[Array, "n"], *, key: Key[Array, ""]
    ) -> tuple[Array, Float[Array, "n"]]:
        """Sequences to act with, and the log-probability of each: from the source, except for a
        share of single actions that are drawn uniformly.

        The source looks at every row along the actions that are taken, just as it does where it is
        fitted to them: a compiled update works that out once.
        """
        keys, shape = jax.random.split(key, 3), (len(rows), self.config.window)
        uniform = self.actions.uniform(shape, keys[0])
        if self.config.feedback:  # all actions are wanted at every state
            return uniform, self.actions.uniform_log_prob(uniform).sum(1)
        share = self.uniform_share(state.updates)
        mixed = jax.random.uniform(keys[1], shape) < share
        # Draws belong to all devices together.
        view = per_device(self.mesh, lambda m, *x: m.view(*x), (REPLICATED, SHARDED, SHARDED))
        source, seen = state.model.source, view(state.model, frames, rows)
        actions = source.sample(seen, uniform, mixed, key=keys[2])
        own = source.step_scores(source.steps(seen, actions), actions)
        even = self.actions.uniform_log_prob(actions)
        return actions, jnp.logaddexp(jnp.log1p(-share) + own, jnp.log(share) + even).sum(1)

    def _with_power_multiplier(self, model: Any, actions: Any, updates: Int[Array, ""]) -> Any:
        """Dual ascent: power that was used beyond what is allowed makes it dearer, in steps that
        fall to zero."""
        if not isinstance(self.actions, Gaussian) or model.power_multiplier is None:
            return model
        excess = jnp.mean(actions**2) / self.actions.scale**2 - 1
        rate = (
            POWER_RATE
            * (1 - updates / self.config.updates)
            / (self.config.beta * self.actions.scale**2)
        )
        return eqx.tree_at(
            lambda m: m.power_multiplier,
            model,
            jnp.maximum(model.power_multiplier + rate * excess, 0.0),
        )

    def _with_prior(self, model: Any, updates: Int[Array, ""]) -> Any:
        """The decoder's prior for the windows of the next update: the share of actions that the
        source chooses."""
        if model.decoder_prior is None:
            return model
        return eqx.tree_at(
            lambda m: m.decoder_prior,
            model,
            jnp.asarray(1 - self.uniform_share(updates), jnp.float32),
        )

    def uniform_share(self, updates: Int[Array, ""]) -> Float[Array, ""]:
        """The share of single actions that are drawn uniformly: it falls from one to zero, fast at
        first and slowly at last."""
        left = 1 - updates / max(self.config.uniform * self.config.updates, 1.0)
        return jnp.maximum(left, 0.0) ** 2 * (self.config.uniform > 0)

    def _schedule(self, rate: float) -> optax.Schedule:
        """A rate that rises to where it would be, except in the paper's algorithm, and falls
        linearly to zero."""
        rising = max((0.0 if self.config.as_printed else RISE) * self.config.updates, 1.0)
        falling = optax.linear_schedule(rate, 0.0, self.config.updates)
        return lambda count: falling(count) * jnp.minimum(1.0, (count + 1) / rising)

    def _optimiser(self) -> optax.GradientTransformation:
        config = self.config
        rate = self._schedule(config.learning_rate)
        if config.optimiser == "adagrad":
            return optax.adagrad(rate)
        if config.optimiser == "adam":
            return optax.adam(rate)
        return optax.contrib.muon(
            rate, muon_weight_dimension_numbers=_axes, consistent_rms=MUON_RMS
        )


class LearnerPolicy(NamedTuple):
    """What agents act by: a learner as it is now."""

    learner: Any
    """Learner, or another with the same methods."""
    state: State

    def __call__(
        self, frames: Any, rows: Any, *, key: Key[Array, ""]
    ) -> tuple[Array, Float[Array, "n"]]:
        return self.learner.choose(self.state, frames, rows, key=key)

    def value(self, frames: Any, rows: Any) -> Float[Array, "n"]:
        def look(model: Model, frames: Any, rows: Any) -> Float[Array, "n"]:
            return of_rows(model.psi, model.representation(frames), rows)

        return per_device(self.learner.mesh, look, (REPLICATED, SHARDED, SHARDED))(
            self.state.model, frames, rows
        )


def cost(model: Model, actions: Array) -> Any:
    """What the power of each sequence costs, in nats."""
    return (
        0.0
        if model.power_multiplier is None
        else jax.lax.stop_gradient(model.power_multiplier) * (actions**2).sum((1, 2))
    )


def _axes(model: Any) -> Any:
    """Which arrays Muon gets, as matrices from inputs to outputs: those that mix many into many.
    Adam gets the rest."""

    def axes(path: Any, x: Array) -> Any:
        matrix = x.ndim == 2 and min(x.shape) >= 10 and "bias" not in jax.tree_util.keystr(path)
        return (
            optax.contrib.MuonDimensionNumbers(reduction_axis=0, output_axis=1) if matrix else None
        )

    return jax.tree_util.tree_map_with_path(axes, model)
