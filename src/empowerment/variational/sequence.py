"""Auto-regressive distributions over action sequences: the source h(a|s) and the decoder q(a|s, s')
(eq. arDistr)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ..worlds.world import Continuous, World
from .config import Config
from .representation import in_order, of_rows, rectified, weights

Prefix = Literal["whole", "previous"]


@dataclass(frozen=True)
class Categorical:
    """One of `size` primitive actions, by its logits."""

    size: int
    power: ClassVar[None] = None

    @property
    def outputs(self) -> int:
        return self.size

    def embed(self, action: Int[Array, "..."]) -> Float[Array, "... size"]:
        return jax.nn.one_hot(action, self.size)

    def log_prob(
        self, logits: Float[Array, "... outputs"], action: Int[Array, "..."]
    ) -> Float[Array, "..."]:
        chosen = (logits * self.embed(action)).sum(-1)
        return chosen - jax.nn.logsumexp(logits, axis=-1)

    def sample(self, logits: Float[Array, "n outputs"], key: Key[Array, ""]) -> Int[Array, "n"]:
        levels = jnp.cumsum(jax.nn.softmax(logits), axis=-1)
        # The last level is left out: rounding must not lead beyond the last action.
        return (jax.random.uniform(key, (len(logits), 1)) > levels[:, :-1]).sum(-1)

    def mode(self, logits: Float[Array, "n outputs"]) -> Int[Array, "n"]:
        return logits.argmax(-1)

    def uniform(self, shape: tuple[int, ...], key: Key[Array, ""]) -> Int[Array, "..."]:
        """Actions drawn evenly."""
        return jax.random.randint(key, shape, 0, self.size)

    def uniform_log_prob(self, actions: Int[Array, "..."]) -> Float[Array, "..."]:
        """ln of the probability of such draws."""
        return jnp.full(actions.shape, -math.log(self.size))

    def gain(self, draws: Any) -> float:
        """One: there is no power to keep to."""
        return 1.0


EDGE = 1 - 1e-6
"""Squashed actions come no nearer to their bounds: single precision could not tell them apart
there."""
NARROW, WIDE = 7.0, 1.0
"""How far below and above its first value the logarithm of a standard deviation can go."""
MOST_COMPONENTS = 64
FARTHEST, BROADEST, TAIL = 4.0, 0.75, 4.0
"""How far from zero the mean of one of several components can be before squashing, its largest
standard deviation, and how many of these a draw can be from it: none comes to the edge, where its
density would be lost in rounding."""


@dataclass(frozen=True)
class Gaussian:
    """A vector of `size` numbers, by means and logarithms of standard deviations (appendix D).

    Without `power` the normal numbers are squashed by tanh into -1..1, and the density has the
    change of variables; with it they are left as they are, and their mean square is priced
    (`Learner`). Where numbers are bounded, the best source sends only a few different ones: each
    number can be drawn from one of several `components`, which first lie side by side between the
    bounds.
    """

    size: int
    power: float | None = None
    components: int = 1

    def __post_init__(self) -> None:
        power = self.power
        if power is not None and (
            not isinstance(power, int | float | np.number) or not 0 < power < math.inf
        ):
            raise ValueError(
                f"power={power!r} must be a positive number, or None for numbers between -1 and 1"
            )
        if not isinstance(self.components, Integral) or not 1 <= int(self.components) <= (
            MOST_COMPONENTS if self.power is None else 1
        ):
            raise ValueError(
                f"components={self.components!r} must be 1 with a power, and from 1 to "
                f"{MOST_COMPONENTS} without"
            )

    @property
    def outputs(self) -> int:
        """Means, spreads and, of several components, weights."""
        return (2 if self.components == 1 else 3) * self.size * self.components

    @property
    def scale(self) -> float:
        """First standard deviation: with it, squashed actions are nearly even, and others have the
        allowed power."""
        return 0.87 if self.power is None else math.sqrt(self.power / self.size)

    def embed(self, action: Float[Array, "... size"]) -> Float[Array, "... size"]:
        return action if self.power is None else action / self.scale

    def log_prob(
        self, outputs: Float[Array, "... outputs"], action: Float[Array, "... size"]
    ) -> Float[Array, "..."]:
        mean, log_std, log_weight = self._parameters(outputs)
        if self.power is None:
            action = jnp.clip(action, -EDGE, EDGE)
            normal, stretch = jnp.arctanh(action), jnp.log1p(-(action**2))
        else:
            normal, stretch = action, jnp.zeros(())
        score = (normal[..., None] - mean) * jnp.exp(-log_std)
        density = jax.nn.logsumexp(log_weight - 0.5 * score**2 - log_std, axis=-1)
        return (density - 0.5 * math.log(2 * math.pi) - stretch).sum(-1)

    def sample(
        self, outputs: Float[Array, "n outputs"], key: Key[Array, ""]
    ) -> Float[Array, "n size"]:
        mean, log_std, log_weight = self._parameters(outputs)
        if self.components > 1:
            key, pick = jax.random.split(key)
            chosen = jax.random.categorical(pick, log_weight)[..., None]
            mean, log_std = (jnp.take_along_axis(x, chosen, -1) for x in (mean, log_std))
            drawn = jax.random.truncated_normal(key, -TAIL, TAIL, mean.shape)
        else:
            drawn = jax.random.normal(key, mean.shape)
        return self._squash((mean + jnp.exp(log_std) * drawn)[..., 0])

    def mode(self, outputs: Float[Array, "n outputs"]) -> Float[Array, "n size"]:
        """The median of each number's likeliest component, which squashing keeps where it is."""
        mean, _, log_weight = self._parameters(outputs)
        chosen = log_weight.argmax(-1, keepdims=True)
        return self._squash(jnp.take_along_axis(mean, chosen, -1)[..., 0])

    def uniform(self, shape: tuple[int, ...], key: Key[Array, ""]) -> Float[Array, "... size"]:
        """Actions drawn evenly between the bounds or, without bounds, normally with the allowed
        power."""
        if self.power is None:
            return jax.random.uniform(key, (*shape, self.size), minval=-EDGE, maxval=EDGE)
        return self.scale * jax.random.normal(key, (*shape, self.size))

    def uniform_log_prob(self, actions: Float[Array, "... size"]) -> Float[Array, "..."]:
        """ln of the density of such draws."""
        if self.power is None:
            return jnp.full(actions.shape[:-1], -self.size * math.log(2 * EDGE))
        density = (
            -0.5 * (actions / self.scale) ** 2 - math.log(self.scale) - 0.5 * math.log(2 * math.pi)
        )
        return density.sum(-1)

    def gain(self, draws: Any) -> float:
        """What such draws are to be multiplied by to keep to the allowed power: less than 1 where
        they exceed it."""
        used = float(np.square(draws).mean()) * self.size
        return 1.0 if self.power is None or used <= self.power else math.sqrt(self.power / used)

    def _parameters(self, outputs: Float[Array, "... outputs"]) -> tuple[Any, Any, Any]:
        """Means, logarithms of standard deviations and of weights, `[..., size, components]`
        each."""
        shape = (*outputs.shape[:-1], -1, self.size, self.components)
        mean, spread, *weight = jnp.moveaxis(outputs.reshape(shape), -3, 0)
        middle, width = self._side_by_side()
        narrow, wide = (limit * jnp.tanh(spread / limit) for limit in (NARROW, WIDE))
        mean, log_std = (
            middle + self.scale * mean,
            jnp.log(width) + jnp.where(spread < 0, narrow, wide),
        )
        if not weight:
            return mean, log_std, jnp.zeros_like(mean)
        return (
            FARTHEST * jnp.tanh(mean / FARTHEST),
            jnp.minimum(log_std, math.log(BROADEST)),
            jax.nn.log_softmax(*weight),
        )

    def _side_by_side(self) -> tuple[Any, Any]:
        """First means and standard deviations of the components, before squashing."""
        if self.components == 1:
            return jnp.zeros(1), jnp.full(1, self.scale)
        middle = (2 * np.arange(self.components) + 1) / self.components - 1
        mean = FARTHEST * jnp.arctanh(np.arctanh(middle) / FARTHEST)
        return mean, jnp.asarray(1 / (self.components * (1 - middle**2)))

    def _squash(self, normal: Float[Array, "... size"]) -> Float[Array, "... size"]:
        return jnp.clip(jnp.tanh(normal), -EDGE, EDGE) if self.power is None else normal


COMPONENTS = 8
"""Normal distributions that a bounded number is drawn from one of: the best source has few
different actions there."""

Actions = Categorical | Gaussian
"""What a step can be: both have `size`, `outputs`, `embed`, `log_prob`, `sample`, `mode`, `uniform`
and `gain`."""


def actions_of(world: World, components: int | None = None) -> Actions:
    """The distribution that fits the actions of a world; `components` are for bounded numbers."""
    if world.continuous is None:
        return Categorical(len(world.actions))
    return vectors(world.continuous, components)


def actions_for(world: World, config: Config) -> Actions:
    """The same for a configuration."""
    return actions_of(world, components_for(config))


def components_for(config: Config) -> int:
    """One as printed, and where gradients go through a model, which cannot pass a choice among
    several."""
    return COMPONENTS if config.method == "variational" and not config.as_printed else 1


def vectors(kind: Continuous, components: int | None) -> Gaussian:
    """The distribution of such actions; several components are for bounded numbers only."""
    return Gaussian(
        kind.size, kind.power, 1 if kind.power is not None or components is None else components
    )


class Context(NamedTuple):
    """The frames' part of a sequence model, for n windows."""

    first: Float[Array, "_ hidden"]
    """Added in the first layer."""
    gate: Float[Array, "n hidden"] | None
    """Multiplied with the last."""
    rows: Int[Array, "n"] | None = None
    """Which row of `first` is each window's, where windows share them; else each has its own."""


class Sequence(eqx.Module):
    """A distribution over K actions given one or more feature vectors (s; or s and s').

    Step k's logits come from a rectified network f(features, prefix) of two layers, as in the
    paper, or more. Its first layer is a sum of a part for the features, computed once for each
    distinct frame and gathered, and a part for the prefix. What the decoder's layers give is
    multiplied by a linear gate from the end state: how likely an action is depends on where the
    prefix has led *together with* where the sequence ends, and a product says that at once
    (docs/experiments.md).
    """

    inputs: tuple[Float[Array, "features hidden"], ...]
    gate: Float[Array, "features hidden"] | None
    embedding: Float[Array, "steps size hidden"]
    first_bias: Float[Array, "steps hidden"]
    second: Float[Array, "hidden hidden"]
    second_bias: Float[Array, "steps hidden"]
    deeper: tuple[Float[Array, "hidden hidden"], ...]
    """Layers beyond the second: what each gives is added to what it is given."""
    last: Float[Array, "steps hidden outputs"]
    last_bias: Float[Array, "steps outputs"]
    actions: Actions = eqx.field(static=True)
    prefix: Prefix = eqx.field(static=True)
    layer_norm: bool = eqx.field(static=True)
    """Whether layers from the second on have layer norm before the rectifier, so that there are no
    dead units."""

    def __init__(
        self,
        actions: Actions,
        horizon: int,
        features: int,
        hidden: int,
        inputs: int,
        prefix: Prefix = "whole",
        layer_norm: bool = True,
        layers: int = 2,
        *,
        key: Key[Array, ""],
    ):
        embedding_key, bias_key, gate_key, inputs_key, layers_key = jax.random.split(key, 5)
        self.actions, self.prefix, self.layer_norm = actions, prefix, layer_norm
        self.inputs = tuple(
            weights(k, features, hidden, gain=2.0 / inputs)
            for k in jax.random.split(inputs_key, inputs)
        )
        self.gate = weights(gate_key, features, hidden, gain=1.0) if inputs > 1 else None
        self.embedding = 0.5 * jax.random.normal(embedding_key, (horizon, actions.size, hidden))
        self.first_bias = 0.1 * jax.random.normal(bias_key, (horizon, hidden))
        self.second, *deeper = (
            weights(k, hidden, hidden) for k in jax.random.split(layers_key, layers - 1)
        )
        self.deeper = tuple(deeper)
        self.second_bias = jnp.zeros((horizon, hidden))
        # Zero: every sequence is equally likely at first.
        self.last = jnp.zeros((horizon, hidden, actions.outputs))
        self.last_bias = jnp.zeros((horizon, actions.outputs))

    @property
    def horizon(self) -> int:
        return len(self.embedding)

    def context(self, features: Float[Array, "frames features"], *rows: Int[Array, "n"]) -> Context:
        """What the frames contribute: rows[0] is the start and rows[1], for a decoder, the end."""
        if self.gate is None and len(features) < len(rows[0]):
            return Context(features @ self.inputs[0], None, rows[0])
        parts: list[Any] = [
            of_rows(partial(_times, m), features, i) for m, i in zip(self.inputs, rows, strict=True)
        ]
        gate = (
            None
            if self.gate is None
            else 1 + of_rows(partial(_times, self.gate), features, rows[-1])
        )
        return Context(jnp.add(*parts) if len(parts) > 1 else parts[0], gate)

    def outputs(
        self, context: Context, prefix: Float[Array, "n hidden"] | None, k: int
    ) -> Float[Array, "n outputs"]:
        """Parameters of step k's distribution; before the first there is no prefix, and windows
        that begin alike share what is worked out."""
        first, gate, rows = context
        if rows is None:
            return self._outputs(first if prefix is None else first + prefix, gate, k)
        return (
            self._outputs(first, gate, k)[rows]
            if prefix is None
            else self._outputs(first[rows] + prefix, gate, k)
        )

    def _outputs(self, x: Float[Array, "n hidden"], gate: Any, k: int) -> Float[Array, "n outputs"]:
        x = jax.nn.relu(x + self.first_bias[k][None])
        x = rectified(x @ self.second + self.second_bias[k][None], self.layer_norm)
        for matrix in self.deeper:
            x = x + rectified(x @ matrix, self.layer_norm)
        x = x if gate is None else x * gate
        return x @ in_order(self.last[k]) + self.last_bias[k][None]

    def extend(
        self, prefix: Float[Array, "n hidden"] | None, action: Array, k: int
    ) -> Float[Array, "n hidden"]:
        """The prefix after action k: the whole of it, or this action only (the paper's equation
        read literally)."""
        new = self.actions.embed(action) @ self.embedding[k]
        return new if prefix is None or self.prefix == "previous" else prefix + new

    def steps(self, context: Context, actions: Array) -> list[Float[Array, "n outputs"]]:
        """Parameters of every step's distribution, given the actions before it."""
        prefix, outputs = None, []
        for k in range(self.horizon):
            outputs.append(self.outputs(context, prefix, k))
            prefix = self.extend(prefix, actions[:, k], k)
        return outputs

    def score(self, steps: list[Float[Array, "n outputs"]], actions: Array) -> Float[Array, "n"]:
        """ln p(a_1..a_K) by the parameters of every step, eq. arDistr."""
        return self.step_scores(steps, actions).sum(1)

    def step_scores(
        self, steps: list[Float[Array, "n outputs"]], actions: Array
    ) -> Float[Array, "n steps"]:
        """ln p(a_k | a_1..a_k-1) of every step."""
        return jnp.stack(
            [self.actions.log_prob(x, actions[:, k]) for k, x in enumerate(steps)], axis=1
        )

    def log_prob(self, context: Context, actions: Array) -> Float[Array, "n"]:
        """ln p(a_1..a_K | context), eq. arDistr."""
        return self.score(self.steps(context, actions), actions)

    def sample(
        self,
        context: Context,
        forced: Array | None = None,
        where: Bool[Array, "n steps"] | None = None,
        *,
        key: Key[Array, ""],
    ) -> Array:
        """One sequence for each context; at the steps where `where` is true, the `forced` action
        instead of a draw."""
        keys = jax.random.split(key, self.horizon)

        def choose(outputs: Float[Array, "n outputs"], k: int) -> Array:
            drawn = self.actions.sample(outputs, keys[k])
            if forced is None or where is None:
                return drawn
            return jnp.where(
                where[:, k].reshape(-1, *(1 for _ in drawn.shape[1:])), forced[:, k], drawn
            )

        return self._draw(context, choose)

    def mode(self, context: Context) -> Array:
        """A likely sequence for each context: the likeliest action at each step."""
        return self._draw(context, lambda outputs, _: self.actions.mode(outputs))

    def _draw(self, context: Context, choose: Callable[[Any, int], Array]) -> Array:
        prefix, actions = None, []
        for k in range(self.horizon):
            actions.append(choose(self.outputs(context, prefix, k), k))
            prefix = self.extend(prefix, actions[-1], k)
        return jnp.stack(actions, axis=1)


def _times(
    matrix: Float[Array, "features hidden"], features: Float[Array, "n features"]
) -> Float[Array, "n hidden"]:
    return features @ matrix
