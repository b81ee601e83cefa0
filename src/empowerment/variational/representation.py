"""The state representation λ: observations to features (section 3.4, appendix D.1)."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Shaped


def weights(key: Key[Array, ""], *shape: int, gain: float = 2.0) -> Float[Array, "..."]:
    """Normal weights scaled for rectifiers: variance gain / inputs."""
    return jax.random.normal(key, shape) * np.sqrt(gain / shape[-2])


def convolve(
    x: Float[Array, "channels rows columns n"], kernel: Float[Array, "patch filters"], size: int, stride: int
) -> Float[Array, "filters out_rows out_columns n"]:
    """A convolution without padding, as shifted slices and one matrix product.

    With so few filters this is faster on a processor than XLA's own convolution, fastest with the channels first and
    the batch last: the product then has few rows and very many columns.
    """
    rows, columns = ((n - size) // stride + 1 for n in x.shape[1:3])
    patches = jnp.concatenate(
        [
            x[:, i : i + stride * (rows - 1) + 1 : stride, j : j + stride * (columns - 1) + 1 : stride]
            for i in range(size)
            for j in range(size)
        ]
    )
    return (kernel.T @ patches.reshape(len(kernel), -1)).reshape(-1, rows, columns, x.shape[3])


class Representation(eqx.Module):
    """Convolutional for pixels, dense for vectors; rectified features.

    Observations are centred and scaled with constants taken from first experience, and dense layers standardised
    before they are rectified: both make learning faster (docs/experiments.md).
    """

    centre: Float[Array, "..."]
    scale: Float[Array, ""]
    kernels: tuple[Float[Array, "patch filters"], ...]
    biases: tuple[Float[Array, "filters"], ...]
    dense: tuple[Float[Array, "inputs outputs"], ...]
    dense_biases: tuple[Float[Array, "outputs"], ...]

    FILTERS = ((4, 1), (3, 2))
    """Size and stride of the paper's two convolutions, of ten filters each."""

    def __init__(self, sample: Shaped[Array, "n *shape"], features: int, *, key: Key[Array, ""]):
        """`sample`: a batch of observations, for their shape, centre and scale."""
        x = sample.astype(jnp.float32)
        self.centre = x.mean(0)
        self.scale = jnp.sqrt(jnp.mean((x - self.centre) ** 2)) + 1e-6
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
        self.dense_biases = tuple(jnp.zeros(b) for b in widths)

    def __call__(self, observations: Shaped[Array, "n *shape"]) -> Float[Array, "n features"]:
        centre, scale = jax.lax.stop_gradient((self.centre, self.scale))
        x = (observations.astype(jnp.float32) - centre[None]) / scale
        x = self._convolved(x) if self.kernels else x
        for matrix, bias in zip(self.dense, self.dense_biases, strict=True):
            x = jax.nn.relu(standardise(x @ matrix + bias[None]))
        return x

    def _convolved(self, x: Float[Array, "n rows columns channels"]) -> Float[Array, "n inputs"]:
        x = jnp.pad(x, [(0, 0), *((0, padded_side(n) - n) for n in x.shape[1:3]), (0, 0)]).transpose(3, 1, 2, 0)
        for kernel, bias, (size, stride) in zip(self.kernels, self.biases, self.FILTERS, strict=True):
            x = jax.nn.relu(convolve(x, kernel, size, stride) + bias[:, None, None, None])
        return x.reshape(-1, x.shape[3]).T


def standardise(x: Float[Array, "n width"]) -> Float[Array, "n width"]:
    """Zero mean and unit variance over the features of each observation."""
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def padded_side(side: int) -> int:
    """The side that an image is padded to: even and at least six, so that the convolutions see all of it."""
    return max(6, side + side % 2)
