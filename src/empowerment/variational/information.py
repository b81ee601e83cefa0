"""Information maximisation for any channel: the learner of empowerment with the state left out
(`channels`)."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .channels import Channel, ChannelCollector, Inputs, channel_collector
from .compiled import keep_compiled
from .config import LARGEST, LARGEST_SIZE, configure, is_whole, refuse_beta
from .devices import refuse_fork
from .host import Compiled
from .keys import seed_key
from .learner import Learner, Model
from .objective import bound
from .sequence import Actions, Categorical, Gaussian
from .training import Run, learn

BLOCK = 2**14
"""Inputs sent together where the bound is measured."""
MOST_SAMPLES = 2**32


class _Half:
    """What source and decoder share: the learned networks, and the channel's way with inputs and
    outputs."""

    def __init__(self, model: Model, where: ChannelCollector):
        self._model, self._where = model, where

    def _flat(self, inputs: Any) -> Any:
        return self._where.inputs.flat(inputs)


class LearnedSource(_Half):
    """The learned distribution over inputs, NumPy in and out."""

    def sample(self, count: int, seed: int = 0) -> np.ndarray:
        """Inputs, as the channel takes them."""
        empty = self._where.empty
        draws = self._model.choose(empty, jnp.zeros(count, jnp.int32), key=seed_key(seed, "source"))
        return np.asarray(self._where.inputs.shaped(draws))

    def log_prob(self, inputs: Any) -> np.ndarray:
        """ln ω(x) of each input."""
        sequences, source = self._flat(inputs), self._model.source
        features = self._model.representation(self._where.empty)
        context = source.context(features, jnp.zeros(len(sequences), jnp.int32))
        return (
            np.asarray(source.log_prob(context, sequences), np.float64)
            - self._where.inputs.log_volume
        )

    @property
    def probabilities(self) -> np.ndarray:
        """Of each symbol, where an input is a single symbol."""
        kind = self._where.inputs.kind
        if not isinstance(kind, Categorical) or self._where.inputs.steps > 1:
            raise ValueError(
                "probabilities are those of single symbols; use log_prob for vectors and sequences"
            )
        return np.exp(self.log_prob(np.arange(kind.size)))


class LearnedDecoder(_Half):
    """The learned distribution over inputs given outputs, NumPy in and out."""

    def log_prob(self, inputs: Any, outputs: Any) -> np.ndarray:
        """ln q(x|y) of each pair."""
        sequences = self._flat(inputs)
        if len(sequences) != len(outputs):
            raise ValueError(
                f"{len(sequences)} inputs and {len(outputs)} outputs make no pairs; give as many "
                "of each"
            )
        context = self._context(outputs)
        log_q = self._model.decoder.log_prob(context, sequences)
        return np.asarray(log_q, np.float64) - self._where.inputs.log_volume

    def mode(self, outputs: Any) -> np.ndarray:
        """A likely input for each output."""
        return np.asarray(
            self._where.inputs.shaped(self._model.decoder.mode(self._context(outputs)))
        )

    def _context(self, outputs: Any) -> Any:
        array, width = np.asarray(outputs), len(self._where.centre)
        flat = array.reshape(len(array), -1)
        if flat.shape[1] != width:
            raise ValueError(
                f"outputs have {flat.shape[1]} numbers each; give {width}, as the channel does"
            )
        batch = self._where.batch(np.zeros(len(array)), flat)
        return self._model.decoder.context(
            self._model.representation(batch.frames), batch.start, batch.end
        )


@dataclass(frozen=True, eq=False)
class Information:
    """What a channel was found to carry, in nats."""

    nats: float
    """The variational bound with the learned source and decoder, from fresh samples: below the
    capacity on average."""
    error: float
    """Standard error of `nats`."""
    power: float | None
    """Mean of |x|² over steps, where it is bounded."""
    source: LearnedSource
    decoder: LearnedDecoder

    @property
    def bits(self) -> float:
        return self.nats / float(np.log(2))


NOT_OF_CHANNELS = (
    "features",
    "hidden",
    "outcomes",
    "method",
    "sequences",
)
"""Settings of `emp.train` that are about states and models of a world."""


def maximise_information(
    channel: Channel,
    source: int | Actions,
    decoder: int = 64,
    *,
    steps: int = 1,
    samples: int = 2**17,
    seed: int = 0,
    progress: bool = False,
    **settings: Any,
) -> Information:
    """Learn the source that sends most information through a channel, and the decoder that reads
    it.

    `channel(inputs, key)` in JAX or `channel(inputs, rng)` in NumPy draws one output for each input
    of a batch; its density is never needed. `source` is what an input is: a number of symbols, or
    `emp.Gaussian(size, power)` for vectors, whose mean square is at most `power`, or
    `emp.Gaussian(size, components=8)`, whose numbers lie between -1 and 1 (few different inputs are
    best there, which several components can be); `steps` of them are sent one after the other.
    `decoder` is the width of the networks. `beta` constrains the entropy of the source, as in
    `emp.capacity`; `settings` are those of `emp.train` (`updates`, `batch`, ...).

    The result is measured on `samples` fresh inputs, rounded up to whole blocks of 16,384; they are
    scaled down where they would exceed the allowed power.

    >>> import numpy as np
    >>> def flip(x, rng):  # a binary symmetric channel
    ...     return x ^ (rng.random(x.shape) < 0.1)
    >>> round(maximise_information(flip, source=2, updates=100, batch=256).nats, 1)  # 0.368
    0.4
    """
    refuse_fork()
    keep_compiled()
    kind: Any = Categorical(int(source)) if is_whole(source, 0) else source
    _check(channel, kind, decoder, steps, samples)
    strange = [name for name in settings if name in NOT_OF_CHANNELS]
    if strange:
        raise ValueError(
            f"setting {strange[0]!r} means nothing for a channel; leave it out, or set decoder, "
            "its width"
        )
    inputs = Inputs(kind, steps)
    usual = {"updates": 1500, "batch": 1024, "optimiser": "adam"}
    config = configure(inputs.length, usual | settings | {"features": decoder, "hidden": decoder})
    refuse_beta(config.beta, not isinstance(kind, Categorical), "a channel of vectors")
    where = channel_collector(channel, inputs, config.batch, seed)
    learner = Learner(config, inputs.single)
    run = Run(Compiled(learner) if where.on_host else learner, where)
    model = learn(run, run.init(seed), progress=progress).learner.average
    power = None
    if not isinstance(kind, Categorical) and kind.power is not None:
        learned, blocks = LearnedSource(model, where), -(-samples // BLOCK)
        seeds = np.random.default_rng(seed).integers(2**32, size=blocks)
        used = float(np.mean([np.square(learned.sample(BLOCK, int(one))).mean() for one in seeds]))
        where = replace(where, inputs=replace(inputs, gain=kind.gain(np.sqrt(used))))
        power = min(used * kind.size, kind.power)
    values = _measured(model, where, config.beta, samples, seed)
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    return Information(
        float(values.mean()),
        error,
        power,
        LearnedSource(model, where),
        LearnedDecoder(model, where),
    )


def _measured(
    model: Model, where: ChannelCollector, beta: float, samples: int, seed: int
) -> np.ndarray:
    """The bound of each of `samples` inputs of the learned source."""
    terms, choose = eqx.filter_jit(Model.terms), eqx.filter_jit(Model.choose)
    empty, values = where.empty, []
    for key in jax.random.split(seed_key(seed, "measure"), -(-samples // BLOCK)):
        draw, send = jax.random.split(key)
        sequences = choose(model, empty, jnp.zeros(BLOCK, jnp.int32), key=draw)
        log_q, log_h, _ = terms(model, where.batch(sequences, where.received(sequences, key=send)))
        values.append(np.asarray(bound(log_q, log_h, beta, where.inputs.log_volume), np.float64))
    return np.concatenate(values)


def _check(channel: Any, kind: Actions, decoder: int, steps: int, samples: int) -> None:
    if not callable(channel):
        raise ValueError(
            f"channel is a {type(channel).__name__}; give a function channel(inputs, key)"
        )
    if not isinstance(kind, Categorical | Gaussian):
        raise ValueError(
            f"source={kind!r} must be a number of symbols (2, 3, ...) or emp.Gaussian(size, power)"
        )
    for name, value, least, most in (
        ("source", kind.size, 1, LARGEST_SIZE),
        ("decoder", decoder, 1, LARGEST["hidden"]),
        ("steps", steps, 1, LARGEST["horizon"]),
        ("samples", samples, 2, MOST_SAMPLES),
    ):
        if not is_whole(value, least, most):
            raise ValueError(f"{name}={value!r} must be a whole number from {least} to {most:,}")
    length = steps * (1 if isinstance(kind, Categorical) else kind.size)
    if length > LARGEST["horizon"]:
        raise ValueError(
            f"an input has {length:,} numbers; give fewer steps, or smaller vectors "
            f"({LARGEST['horizon']:,})"
        )
