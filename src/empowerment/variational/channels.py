"""Channels in place of worlds: what is sent, and windows (nothing, input, output) for the learner
of empowerment.

A channel has no state, so every window starts in one and the same constant frame, which the
networks take for a bias; outputs are the frames that windows end in.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from .collect import Batch, Draw
from .host import generator
from .keys import seed_key
from .sequence import Actions, Categorical, Gaussian

Channel = Callable[..., Any]
"""`channel(inputs, key)` in JAX or `channel(inputs, rng)` in NumPy: one output for each input."""
ROUNDING = 1e-12
"""Standard deviations below this fraction of the largest output count as rounding error."""
SAMPLE = 4096
"""Outputs that centre and scale are taken from."""


@dataclass(frozen=True)
class Inputs:
    """What is sent: `steps` symbols or vectors, as the sequence of symbols or numbers that is
    learned.

    A vector is a sequence of numbers too: each depends on those before it, so that they can be
    correlated. Numbers are multiplied by `gain` before they are sent.
    """

    kind: Actions
    steps: int
    gain: float = 1.0

    @property
    def single(self) -> Actions:
        """The distribution of one member of the sequence."""
        kind = self.kind
        if isinstance(kind, Categorical):
            return kind
        return Gaussian(1, None if kind.power is None else kind.power / kind.size, kind.components)

    @property
    def length(self) -> int:
        """Members of the sequence."""
        return self.steps * math.prod(self._size)

    @property
    def log_volume(self) -> float:
        """ln of the volume that a unit of volume takes once it is multiplied by the gain."""
        return self.length * math.log(self.gain) if self._size else 0.0

    def shaped(self, sequences: Any) -> Any:
        """Sequences as the channel takes them: `[n]`, `[n, size]`, `[n, steps]` or `[n, steps,
        size]`."""
        inputs = sequences.reshape(
            (len(sequences), *((self.steps,) if self.steps > 1 else ()), *self._size)
        )
        return inputs * self.gain if self._size else inputs

    def flat(self, inputs: Any) -> Any:
        """Inputs of the channel as sequences."""
        array = jnp.asarray(inputs)
        if array.shape != (shape := np.shape(self.shaped(np.zeros((len(array), self.length))))):
            raise ValueError(
                f"inputs have shape {array.shape}; give {shape}, as the channel takes them"
            )
        if isinstance(self.kind, Categorical):
            known = (array >= 0) & (array < self.kind.size) & (array == jnp.floor(array))
            if not bool(known.all()):
                raise ValueError(f"inputs must be symbols from 0 to {self.kind.size - 1}")
            array = array.astype(jnp.int32)
        return (
            array.reshape(len(array), self.length, 1) / self.gain
            if self._size
            else array.reshape(len(array), -1)
        )

    @property
    def _size(self) -> tuple[int, ...]:
        return () if isinstance(self.kind, Categorical) else (self.kind.size,)


@dataclass(frozen=True, eq=False)
class ChannelCollector:
    """Inputs of the present source sent through a channel. Outputs are centred and scaled part by
    part."""

    channel: Channel
    inputs: Inputs
    size: int
    """Windows a batch."""
    on_host: bool
    """Whether the channel is written in NumPy."""
    centre: Any = None
    spread: Any = None

    def init(self, key: Key[Array, ""]) -> tuple[()]:
        """Nothing: a channel has no state."""
        return ()

    def sample_frames(self, key: Key[Array, ""]) -> Any:
        """Frames for the representation's centre and scale: as many empty ones as outputs."""
        outputs = self.frames(self.sample(key))
        return jnp.concatenate([outputs, jnp.broadcast_to(self.empty, outputs.shape)])

    def sample(self, key: Key[Array, ""]) -> Any:
        """Outputs of inputs drawn evenly."""
        draw, send = jax.random.split(key)
        return self.received(
            self.inputs.single.uniform((SAMPLE, self.inputs.length), draw), key=send
        )

    def collect(
        self, agents: tuple[()], choose: Draw, *, key: Key[Array, ""]
    ) -> tuple[tuple[()], Batch]:
        """Send a batch of inputs of the present source."""
        draw, send = jax.random.split(key)
        sequences, _ = choose(self.empty, jnp.zeros(self.size, jnp.int32), key=draw)
        return agents, self.batch(sequences, self.received(sequences, key=send))

    def feedback(self, agents: tuple[()], errors: Float[Array, "n"]) -> tuple[()]:
        """Nothing is done with the errors: there is nowhere else to go."""
        return agents

    def received(self, sequences: Any, *, key: Key[Array, ""]) -> Any:
        """Outputs of the channel, `[n, parts]`, in its own precision."""
        inputs = self.inputs.shaped(sequences)
        if self.on_host:
            outputs = np.asarray(self.channel(np.asarray(inputs), generator(key)))
        else:
            outputs = jnp.asarray(self.channel(inputs, key))
        if outputs.shape[:1] != (len(sequences),):
            raise ValueError(
                f"channel gave outputs of shape {outputs.shape} for {len(sequences)} inputs; give "
                "one each"
            )
        return outputs.reshape(len(sequences), -1)

    def batch(self, sequences: Any, outputs: Any) -> Batch:
        """Windows from the empty frame to the outputs."""
        index, frames = jnp.arange(len(sequences), dtype=jnp.int32), self.frames(outputs)
        return Batch(
            jnp.concatenate([self.empty, frames]),
            jnp.zeros_like(index),
            index + 1,
            jnp.asarray(sequences),
        )

    def frames(self, outputs: Any) -> Float[Array, "n width"]:
        """Standardised outputs as frames, with a last entry of 1; it is -1 in the empty frame.

        The representation's first layer has layer norm. Without this entry it could not distinguish
        a large output from a small one of the same direction.
        """
        scaled = jnp.asarray((outputs - self.centre) / self.spread, jnp.float32)
        return jnp.concatenate([scaled, jnp.ones((len(scaled), 1))], axis=1)

    @property
    def empty(self) -> Float[Array, "1 width"]:
        """The frame of no state."""
        return jnp.zeros((1, len(self.centre) + 1)).at[0, -1].set(-1.0)


def channel_collector(channel: Channel, inputs: Inputs, size: int, seed: int) -> ChannelCollector:
    """Experience of a channel, with the centre and spread of a first sample of its outputs."""
    raw = ChannelCollector(channel, inputs, size, _in_numpy(channel))
    sample = np.asarray(raw.sample(seed_key(seed, "scale")), np.float64)
    if not np.isfinite(sample).all():
        raise ValueError("channel gave NaN or infinity; let it give finite numbers")
    spread = sample.std(0)
    spread = np.where(
        spread > ROUNDING * np.abs(sample).max(0), spread, 1.0
    )  # of what never varies
    return ChannelCollector(channel, inputs, size, raw.on_host, sample.mean(0), spread)


def _in_numpy(channel: Channel) -> bool:
    """Whether a channel is written in NumPy, by the name of its second argument."""
    names = list(inspect.signature(channel).parameters)
    if len(names) < 2 or names[1] not in ("key", "rng"):
        raise ValueError(
            f"channel takes {names}; let it be channel(inputs, key) in JAX, or channel(inputs, "
            "rng) in NumPy"
        )
    return names[1] == "rng"
