"""The state representation λ: observations to features (section 4.4, appendix D.1)."""

from collections.abc import Callable
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Shaped

BLOCK = 120_000
"""Pixels that are convolved at once; more fall out of a processor's caches."""

FLOOR = 1e-3
"""Share of the mean variance that whitening adds to every direction: those that hardly vary are mostly rounding."""


def weights(key: Key[Array, ""], *shape: int, gain: float = 2.0) -> Float[Array, "..."]:
    """Normal weights scaled for rectifiers: variance gain / inputs."""
    return jax.random.normal(key, shape) * np.sqrt(gain / shape[-2])


def convolve_twice(
    x: Float[Array, "channels rows columns n"],
    kernels: tuple[Float[Array, "_ _"], ...],
    biases: tuple[Float[Array, "_"], ...],
) -> Float[Array, "_ _ _ n"]:
    """The paper's two rectified convolutions (4x4, then 3x3 with stride 2), as slices and two matrix products.

    With so few filters a processor's time goes into moving patches, not into multiplying. The first convolution
    therefore makes tiles of 2x2 outputs at once, from patches of 5x5: half as many numbers are moved. Its tiles are
    also the four phases that the second one's stride wants, so that neither needs strided slices. Channels come first
    and the batch last: the products then have few rows and very many columns.
    """
    (channels, rows, columns, n), filters = x.shape, kernels[0].shape[1]
    rows, columns = rows // 2, columns // 2
    x = jnp.pad(x, [(0, 0), (0, 2), (0, 2), (0, 0)])  # for the last tiles' unused places
    phases = x.reshape(channels, rows + 1, 2, columns + 1, 2, n).transpose(0, 2, 4, 1, 3, 5)
    tiles = _products(phases, _tiled(kernels[0], channels), 5, rows - 1, columns - 1)
    tiles = jax.nn.relu(tiles.reshape(filters, 4, -1) + biases[0][:, None, None])
    phases = tiles.reshape(filters, 2, 2, rows - 1, columns - 1, n)
    last = _products(phases, kernels[1], 3, rows - 2, columns - 2)
    return jax.nn.relu(last + biases[1][:, None]).reshape(-1, rows - 2, columns - 2, n)


def _products(
    phases: Float[Array, "channels 2 2 half_rows half_columns n"],
    kernel: Float[Array, "patch filters"],
    size: int,
    rows: int,
    columns: int,
) -> Float[Array, "filters positions"]:
    """The kernel's product with every second patch; pixel (i, j) of a patch lies in phase (i % 2, j % 2)."""
    offsets = [(i, j) for i in range(size) for j in range(size)]
    patches = [phases[:, i % 2, j % 2, i // 2 : i // 2 + rows, j // 2 : j // 2 + columns] for i, j in offsets]
    return kernel.T @ jnp.concatenate(patches).reshape(len(kernel), -1)


def _tiled(kernel: Float[Array, "patch filters"], channels: int) -> Float[Array, "larger_patch tiled_filters"]:
    """A 4x4 kernel as a 5x5 one with four times the filters: one for each place in a tile of 2x2."""
    square = kernel.reshape(4, 4, channels, -1)
    places = [jnp.pad(square, [(i, 1 - i), (j, 1 - j), (0, 0), (0, 0)]) for i in (0, 1) for j in (0, 1)]
    return jnp.stack(places, axis=-1).reshape(25 * channels, -1)


class Representation(eqx.Module):
    """Convolutional for pixels, dense for vectors; rectified features.

    Observations are centred and scaled with constants taken from first experience, and dense layers standardised
    before they are rectified: both make learning faster (docs/experiments.md). With `whiten`, colours are scaled so
    that every direction varies alike: a small agent is then seen beside much lava.
    """

    centre: Float[Array, "..."]
    scale: Float[Array, ""] | Float[Array, "channels channels"]
    kernels: tuple[Float[Array, "patch filters"], ...]
    biases: tuple[Float[Array, "filters"], ...]
    dense: tuple[Float[Array, "inputs outputs"], ...]
    dense_biases: tuple[Float[Array, "outputs"], ...]

    FILTERS = ((4, 1), (3, 2))
    """Size and stride of the paper's two convolutions, of ten filters each."""

    def __init__(self, sample: Shaped[Array, "n *shape"], features: int, whiten: bool = True, *, key: Key[Array, ""]):
        """`sample`: a batch of observations, for their shape, centre and scale."""
        x = sample.astype(jnp.float32)
        self.centre = x.mean(0)
        self.scale = whitening(x - self.centre) if whiten and x.ndim == 4 else _deviation(x - self.centre) + 1e-6
        keys = iter(jax.random.split(key, 4))
        if x.ndim == 4:
            sides, channels, kernels = tuple(map(padded_side, x.shape[1:3])), x.shape[3], []
            for size, stride in self.FILTERS:
                kernels.append(weights(next(keys), size * size * channels, 10))
                sides, channels = tuple((n - size) // stride + 1 for n in sides), 10
            self.kernels = tuple(kernels)
            inputs, widths = sides[0] * sides[1] * channels, (features,)
        else:
            self.kernels, inputs, widths = (), x.shape[1], (features, features)
        self.biases = tuple(jnp.zeros(10) for _ in self.kernels)
        sizes = (inputs, *widths)
        self.dense = tuple(weights(next(keys), a, b) for a, b in pairwise(sizes))
        # Standardising what a vector gives without biases would leave only its direction.
        spread = 0.0 if self.kernels else 1.0
        self.dense_biases = tuple(spread * jax.random.normal(k, (b,)) for k, b in zip(keys, widths, strict=False))

    def __call__(self, observations: Shaped[Array, "n *shape"]) -> Float[Array, "n features"]:
        centre, scale = jax.lax.stop_gradient((self.centre, self.scale))
        x = observations.astype(jnp.float32) - centre[None]
        x = x @ scale if scale.ndim else x / scale
        x = self._convolved(x) if self.kernels else x
        for matrix, bias in zip(self.dense, self.dense_biases, strict=True):
            x = rectified(x @ matrix + bias[None], True)
        return x

    def _convolved(self, x: Float[Array, "n rows columns channels"]) -> Float[Array, "n inputs"]:
        x = jnp.pad(x, [(0, 0), *((0, padded_side(n) - n) for n in x.shape[1:3]), (0, 0)])
        return in_blocks(self._block, x, max(1, BLOCK // (x.shape[1] * x.shape[2])))

    def _block(self, x: Float[Array, "n rows columns channels"]) -> Float[Array, "n inputs"]:
        x = convolve_twice(x.transpose(3, 1, 2, 0), self.kernels, self.biases)
        return x.reshape(-1, x.shape[3]).T


def in_blocks(
    function: Callable[[Float[Array, "size *shape"]], Float[Array, "size width"]],
    x: Float[Array, "n *shape"],
    size: int,
) -> Float[Array, "n width"]:
    """`function` of all rows, at most `size` at a time; what is in between is made again for the gradient, since
    that takes less time than to keep and fetch it."""
    again = jax.checkpoint(lambda block: function(block))
    blocks = -(-len(x) // size)
    if blocks == 1:
        return again(x)
    rows = -(-len(x) // blocks)
    padded = jnp.pad(x, [(0, blocks * rows - len(x)), *[(0, 0)] * (x.ndim - 1)])
    return jax.lax.map(again, padded.reshape(blocks, rows, *x.shape[1:])).reshape(blocks * rows, -1)[: len(x)]


def whitening(x: Float[Array, "n rows columns channels"]) -> Float[Array, "channels channels"]:
    """The symmetric matrix that gives centred colours unit variance in every direction in which they vary."""
    x = x.reshape(-1, x.shape[-1])
    values, directions = jnp.linalg.eigh(x.T @ x / len(x))
    return (directions / jnp.sqrt(values + FLOOR * values.mean() + 1e-12)) @ directions.T


def _deviation(x: Float[Array, "..."]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(x**2))


def standardise(x: Float[Array, "n width"]) -> Float[Array, "n width"]:
    """Zero mean and unit variance over the features of each observation."""
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def rectified(x: Float[Array, "n width"], standard: bool) -> Float[Array, "n width"]:
    """A layer's output; a standardised one always has some positive numbers, whatever its weights become."""
    return jax.nn.relu(standardise(x) if standard else x)


def padded_side(side: int) -> int:
    """The side that an image is padded to: even and at least six, so that the convolutions see all of it."""
    return max(6, side + side % 2)
