"""The state representation λ: observations to features (section 4.4, appendix D.1)."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped

from .pictures import PATCH, PatchTable, UniqueFrames, padded_side, patches_of

BLOCK = 64_000
"""Pixels that are convolved at once; more fall out of a processor's caches."""

FLOOR = 1e-3
"""Share of the mean variance that whitening adds to every direction: those that hardly vary are
mostly rounding."""


def weights(key: Key[Array, ""], *shape: int, gain: float = 2.0) -> Float[Array, "..."]:
    """Normal weights scaled for rectifiers: variance gain / inputs."""
    return jax.random.normal(key, shape) * np.sqrt(gain / shape[-2])


def convolve_twice(
    x: Float[Array, "channels rows columns n"],
    kernels: tuple[Float[Array, "_ _"], ...],
    biases: tuple[Float[Array, "_"], ...],
) -> Float[Array, "_ _ _ n"]:
    """The paper's two rectified convolutions (4x4, then 3x3 with stride 2), as slices and two
    matrix products.

    With so few filters a processor's time goes into moving patches, not into multiplying. The first
    convolution therefore makes tiles of 2x2 outputs at once, from patches of 5x5: half as many
    numbers are moved. Its tiles are also the four phases that the second one's stride wants, so
    that neither needs strided slices. Channels come first and the batch last: the products then
    have few rows and very many columns.
    """
    (channels, rows, columns, n), filters = x.shape, kernels[0].shape[1]
    rows, columns = rows // 2, columns // 2
    x = jnp.pad(x, [(0, 0), (0, 2), (0, 2), (0, 0)])  # for the last tiles' unused places
    phases = x.reshape(channels, rows + 1, 2, columns + 1, 2, n).transpose(0, 2, 4, 1, 3, 5)
    tiles = _products(phases, _tiled(kernels[0], channels), 5).reshape(filters, 4, -1)
    tiles = jax.nn.relu(tiles + biases[0][:, None, None])
    last = _products(tiles.reshape(filters, 2, 2, rows - 1, columns - 1, n), kernels[1], 3)
    return jax.nn.relu(last + biases[1][:, None, None, None])


def _multiply(
    phases: Float[Array, "channels 2 2 half_rows half_columns n"],
    kernel: Float[Array, "patch filters"],
    size: int,
) -> Float[Array, "filters rows columns n"]:
    """The kernel's product with every second patch; pixel (i, j) of a patch lies in phase (i % 2, j
    % 2)."""
    rows, columns = (n - size // 2 for n in phases.shape[3:5])
    return (kernel.T @ _patches(phases, size)).reshape(kernel.shape[1], rows, columns, -1)


def _patches(
    phases: Float[Array, "channels 2 2 half_rows half_columns n"], size: int
) -> Float[Array, "patch _"]:
    rows, columns = (n - size // 2 for n in phases.shape[3:5])
    offsets = [(i, j) for i in range(size) for j in range(size)]
    patches = [
        phases[:, i % 2, j % 2, i // 2 : i // 2 + rows, j // 2 : j // 2 + columns]
        for i, j in offsets
    ]
    return jnp.concatenate(patches).reshape(size * size * len(phases), -1)


def _multiply_forward(phases: Any, kernel: Any, size: int) -> tuple[Any, Any]:
    return _multiply(phases, kernel, size), (phases, kernel)


def _multiply_backward(
    size: int, kept: Any, gradient: Float[Array, "filters rows columns n"]
) -> tuple[Any, Any]:
    """Both gradients as products too: adding up what overlapping patches give, pixel by pixel,
    takes five times as long. A pixel of a phase meets a kernel of half the size, the same for all
    pixels of the phase."""
    phases, kernel = kept
    half, filters = size // 2 + 1, kernel.shape[1]
    square = kernel.reshape(size, size, -1, filters)
    square = jnp.pad(square, [(0, 2 * half - size), (0, 2 * half - size), (0, 0), (0, 0)])
    halved = (
        square.reshape(half, 2, half, 2, -1, filters)
        .transpose(4, 1, 3, 0, 2, 5)
        .reshape(-1, half * half * filters)
    )
    wide = jnp.pad(gradient, [(0, 0), (half - 1, half - 1), (half - 1, half - 1), (0, 0)])
    (rows, columns), back = phases.shape[3:5], range(half - 1, -1, -1)
    around = jnp.concatenate([wide[:, i : i + rows, j : j + columns] for i in back for j in back])
    of_phases = (halved @ around.reshape(halved.shape[1], -1)).reshape(phases.shape)
    return of_phases, _patches(phases, size) @ gradient.reshape(filters, -1).T


_products: Any = jax.custom_vjp(_multiply, nondiff_argnums=(2,))
_products.defvjp(_multiply_forward, _multiply_backward)


def _tiled(
    kernel: Float[Array, "patch filters"], channels: int
) -> Float[Array, "larger_patch tiled_filters"]:
    """A 4x4 kernel as a 5x5 one with four times the filters: one for each place in a tile of
    2x2."""
    square = kernel.reshape(4, 4, channels, -1)
    places = [
        jnp.pad(square, [(i, 1 - i), (j, 1 - j), (0, 0), (0, 0)]) for i in (0, 1) for j in (0, 1)
    ]
    return jnp.stack(places, axis=-1).reshape(25 * channels, -1)


class Representation(eqx.Module):
    """Convolutional for pixels, dense for vectors; rectified features.

    Observations are centred and scaled with constants taken from first experience, and dense layers
    standardised before they are rectified: both make learning faster (docs/experiments.md). With
    `whiten`, colours are scaled so that every direction varies alike: a small agent is then seen
    beside much lava.
    """

    centre: Float[Array, "..."]
    reach: Float[Array, ""]
    """Largest distance of a number of the sample from its centre."""
    scale: Float[Array, ""] | Float[Array, "channels channels"]
    kernels: tuple[Float[Array, "patch filters"], ...]
    biases: tuple[Float[Array, "filters"], ...]
    dense: tuple[Float[Array, "inputs outputs"], ...]
    dense_biases: tuple[Float[Array, "outputs"], ...]
    pixels: bool = eqx.field(static=True)
    """Whether observations are bytes, 0 to 255."""

    FILTERS = ((4, 1), (3, 2))
    """Size and stride of the paper's two convolutions, of ten filters each."""

    def __init__(
        self,
        sample: Shaped[Array, "n *shape"],
        features: int,
        whiten: bool = True,
        *,
        key: Key[Array, ""],
    ):
        """`sample`: a batch of observations, for their shape, centre and scale."""
        x = sample.astype(jnp.float32)
        self.pixels = sample.dtype == jnp.uint8
        self.centre = x.mean(0)
        self.reach = jnp.abs(x - self.centre).max()
        self.scale = (
            whitening(x - self.centre)
            if whiten and x.ndim == 4
            else _deviation(x - self.centre) + 1e-6
        )
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
        self.dense_biases = tuple(
            spread * jax.random.normal(k, (b,)) for k, b in zip(keys, widths, strict=False)
        )

    def __call__(
        self, observations: Shaped[Array, "n *shape"] | UniqueFrames | PatchTable
    ) -> Float[Array, "n features"]:
        """Features of each observation; of `UniqueFrames`, rows beyond their count mean nothing."""
        if isinstance(observations, PatchTable):
            return self._assembled(observations)
        frames, count = (
            observations if isinstance(observations, UniqueFrames) else (observations, None)
        )
        if not self.kernels:
            centre, scale = jax.lax.stop_gradient((self.centre, self.scale))
            return self._dense((frames.astype(jnp.float32) - centre[None]) / scale)
        block = max(1, BLOCK // (frames.shape[1] * frames.shape[2]))
        if len(frames) <= block or frames.dtype != jnp.uint8:
            return jax.checkpoint(Representation._encoded)(self, frames)
        return in_blocks(Representation._encoded, self, frames, block, count)

    def _encoded(
        self, frames: Shaped[Array, "n rows columns channels"]
    ) -> Float[Array, "n features"]:
        x = frames.astype(jnp.float32) - jax.lax.stop_gradient(self.centre)[None]
        x = jnp.pad(x, [(0, 0), *((0, padded_side(n) - n) for n in x.shape[1:3]), (0, 0)])
        x = convolve_twice(x.transpose(3, 1, 2, 0), (self._first(), self.kernels[1]), self.biases)
        return self._dense(x.reshape(-1, x.shape[3]).T)

    def _assembled(self, patch_table: PatchTable) -> Float[Array, "n features"]:
        """The same from patches, which are convolved once each."""
        centre = jax.lax.stop_gradient(patches_of(self.centre[None])[0])
        x = (patch_table.patches.astype(jnp.float32) - centre[patch_table.places]).reshape(
            len(patch_table.patches), -1
        )
        first = spread_kernel(self._first(), patch_table.patches.shape[-1])
        x = jax.nn.relu(
            x @ first + jnp.tile(self.biases[0], first.shape[1] // len(self.biases[0]))[None]
        )
        x = jax.nn.relu(x @ self.kernels[1] + self.biases[1][None])
        # Place by place, where whole pictures come filter by filter.
        matrix = self.dense[0].reshape(x.shape[1], -1, self.dense[0].shape[1]).swapaxes(0, 1)
        return self._dense(
            x[patch_table.index].reshape(len(patch_table.index), -1),
            in_order(matrix.reshape(self.dense[0].shape)),
        )

    def _first(self) -> Float[Array, "patch filters"]:
        """The first kernel, for colours that are centred and not yet scaled."""
        kernel, scale = self.kernels[0], jax.lax.stop_gradient(self.scale)
        if not scale.ndim:
            return kernel / scale
        return jnp.einsum(
            "ij,pjf->pif", scale, kernel.reshape(-1, len(scale), kernel.shape[1])
        ).reshape(kernel.shape)

    def _dense(self, x: Float[Array, "n inputs"], first: Any = None) -> Float[Array, "n features"]:
        """The dense layers, with another first matrix if one is given."""
        matrices = (self.dense[0] if first is None else first, *self.dense[1:])
        for matrix, bias in zip(matrices, self.dense_biases, strict=True):
            x = rectified(x @ matrix + bias[None], True)
        return x


class Network(eqx.Module):
    """Rectified layers and a linear one, which is zero at first."""

    layers: tuple[Float[Array, "inputs outputs"], ...]
    """From the third on, what a layer gives is added to what it is given."""
    biases: tuple[Float[Array, "outputs"], ...]
    layer_norm: bool = eqx.field(static=True)

    def __init__(
        self,
        features: int,
        hidden: int,
        outputs: int,
        layers: int = 2,
        layer_norm: bool = True,
        *,
        key: Key[Array, ""],
    ):
        self.layer_norm = layer_norm
        sizes = (features, *[hidden] * layers)
        keys = jax.random.split(key, layers)
        hidden_layers = [weights(k, *pair) for k, pair in zip(keys, pairwise(sizes), strict=True)]
        self.layers = (*hidden_layers, jnp.zeros((hidden, outputs)))
        self.biases = (*(jnp.zeros(hidden) for _ in hidden_layers), jnp.zeros(outputs))

    def __call__(self, features: Float[Array, "n features"]) -> Float[Array, "n outputs"]:
        x = features
        for i, (matrix, bias) in enumerate(zip(self.layers[:-1], self.biases[:-1], strict=True)):
            y = rectified(x @ matrix + bias[None], self.layer_norm)
            x = y if i < 2 else x + y
        return x @ self.layers[-1] + self.biases[-1][None]


def of_rows(
    function: Callable[[Float[Array, "_ features"]], Any],
    features: Float[Array, "n features"],
    rows: Int[Array, "m"],
) -> Any:
    """`function` of the features in these rows, worked out once for each frame or for each row,
    whichever are fewer."""
    return function(features)[rows] if len(features) <= len(rows) else function(features[rows])


def in_order(matrix: Float[Array, "inputs outputs"]) -> Float[Array, "inputs outputs"]:
    """The same matrix, whose gradient is made transposed. Where inputs are many more than outputs,
    a processor is two to seven times as quick that way round, and the barrier keeps the compiler
    from turning it back."""
    return jax.lax.optimization_barrier(matrix.T).T


def spread_kernel(
    kernel: Float[Array, "patch filters"], channels: int
) -> Float[Array, "larger_patch outputs"]:
    """The first convolution of a patch as one product: 6x6 pixels to the 3x3 places that the second
    one wants."""
    square, places = kernel.reshape(4, 4, channels, -1), range(PATCH - 3)
    shifted = [
        jnp.pad(square, [(i, 2 - i), (j, 2 - j), (0, 0), (0, 0)]) for i in places for j in places
    ]
    return jnp.stack(shifted, axis=-2).reshape(PATCH * PATCH * channels, -1)


def in_blocks(
    function: Callable[[Any, Shaped[Array, "size *shape"]], Float[Array, "size *width"]],
    model: Any,
    x: Shaped[Array, "n *shape"],
    size: int,
    count: Int[Array, "1"] | None = None,
) -> Float[Array, "n *width"]:
    """`function(model, rows)` of all rows or the first `count`, `size` at a time; what is given for
    further ones means nothing.

    What is in between is made again for the gradient: that takes less time than to keep and fetch
    it.
    """
    padded = jnp.pad(x, [(0, -len(x) % size), *[(0, 0)] * (x.ndim - 1)])
    blocks = jnp.asarray(len(padded) // size) if count is None else -(-count[0] // size)
    return _in_blocks(function, size, model, padded, blocks)[: len(x)]


def _all(
    function: Any, size: int, model: Any, x: Any, blocks: Int[Array, ""]
) -> Float[Array, "n *width"]:
    def add(i: Any, out: Any) -> Any:
        return jax.lax.dynamic_update_slice_in_dim(
            out, function(model, _block(x, i, size)), i * size, 0
        )

    width = jax.eval_shape(function, model, x[:size])
    return jax.lax.fori_loop(0, blocks, add, jnp.zeros((len(x), *width.shape[1:]), width.dtype))


def _all_forward(function: Any, size: int, model: Any, x: Any, blocks: Any) -> tuple[Any, Any]:
    return _all(function, size, model, x, blocks), (model, x, blocks)


def _all_backward(function: Any, size: int, kept: Any, gradient: Any) -> tuple[Any, ...]:
    """The gradient with respect to the model; what is seen has none."""
    model, x, blocks = kept

    def add(i: Any, total: Any) -> Any:
        _, pull = jax.vjp(lambda m: function(m, _block(x, i, size)), model)
        return jax.tree.map(jnp.add, total, pull(_block(gradient, i, size))[0])

    return jax.lax.fori_loop(0, blocks, add, jax.tree.map(jnp.zeros_like, model)), None, None


_in_blocks: Any = jax.custom_vjp(_all, nondiff_argnums=(0, 1))
_in_blocks.defvjp(_all_forward, _all_backward)


def _block(x: Any, i: Any, size: int) -> Any:
    return jax.lax.dynamic_slice_in_dim(x, i * size, size)


def whitening(x: Float[Array, "n rows columns channels"]) -> Float[Array, "channels channels"]:
    """The symmetric matrix that gives centred colours unit variance in every direction in which
    they vary."""
    x = x.reshape(-1, x.shape[-1])
    values, directions = jnp.linalg.eigh(x.T @ x / len(x))
    return (directions / jnp.sqrt(values + FLOOR * values.mean() + 1e-12)) @ directions.T


def _deviation(x: Float[Array, "..."]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.mean(x**2))


def layer_norm(x: Float[Array, "n width"]) -> Float[Array, "n width"]:
    """Normalise each row to zero mean and unit variance.

    Written without axes of size one, so that the compiler can share work between sampling and
    scoring.
    """
    x = x - x.mean(-1)[:, None]
    return x * jax.lax.rsqrt((x**2).mean(-1) + 1e-5)[:, None]


def rectified(x: Float[Array, "n width"], normalised: bool) -> Float[Array, "n width"]:
    """A layer's output; with layer norm some of it is positive whatever the weights become: no dead
    units."""
    return jax.nn.relu(layer_norm(x) if normalised else x)
