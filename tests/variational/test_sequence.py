import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from empowerment.variational.representation import Representation, convolve_twice, in_blocks, padded_side
from empowerment.variational.sequence import Categorical, Sequence

HORIZON, ACTIONS = 3, 4
EVERY = jnp.array(list(itertools.product(range(ACTIONS), repeat=HORIZON)))


def model(prefix="whole", inputs=2):
    keys = jax.random.split(jax.random.key(0))
    new = Sequence(Categorical(ACTIONS), HORIZON, 6, 16, inputs, prefix, key=keys[0])
    noise = jax.random.normal(keys[1], new.last.shape)
    object.__setattr__(new, "last", noise)  # away from the uniform start
    return new


def context(m, count=1):
    features = jax.random.normal(jax.random.key(1), (2, 6))
    return m.context(features, *[jnp.full(count, i) for i in range(len(m.inputs))])


@pytest.mark.parametrize("prefix", ["whole", "previous"])
def test_probabilities_of_all_sequences_sum_to_one(prefix):
    m = model(prefix)
    assert np.exp(m.log_prob(context(m, len(EVERY)), EVERY)).sum() == pytest.approx(1, abs=1e-5)


def test_samples_come_with_their_probabilities():
    m, n = model(), 40_000
    drawn = np.asarray(m.sample(context(m, n), key=jax.random.key(2)))
    code = drawn @ np.array([16, 4, 1])
    seen = np.bincount(code, minlength=64) / n
    expected = np.exp(m.log_prob(context(m, 64), EVERY))
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected / n) + 1e-4).all()


def test_every_sequence_is_equally_likely_at_first():
    m = Sequence(Categorical(ACTIONS), HORIZON, 6, 16, 1, key=jax.random.key(0))
    assert np.allclose(m.log_prob(context(m, 64), EVERY), -HORIZON * np.log(ACTIONS))


def test_only_the_whole_prefix_sees_the_first_action_at_the_third_step():
    for prefix, differs in (("whole", True), ("previous", False)):
        m = model(prefix)
        pair = jnp.array([[0, 2, 1], [3, 2, 1]])
        before = jnp.array([[0, 2, 0], [3, 2, 0]])
        step = m.log_prob(context(m, 2), pair) - m.log_prob(context(m, 2), before)
        assert (abs(step[0] - step[1]) > 1e-4) == differs


def test_mode_takes_the_likeliest_action_at_each_step():
    m = model()
    best = m.mode(context(m))[0]
    first = [np.exp(m.log_prob(context(m, 16), EVERY[i * 16 : i * 16 + 16])).sum() for i in range(4)]
    assert best[0] == int(np.argmax(first))


@pytest.mark.parametrize(("rows", "columns"), [(6, 6), (20, 20), (8, 14)])
def test_convolutions_are_convolutions(rows, columns):
    keys = jax.random.split(jax.random.key(0), 5)
    x = jax.random.normal(keys[0], (3, rows, columns, 2))
    kernels = (jax.random.normal(keys[1], (48, 5)), jax.random.normal(keys[2], (45, 7)))
    biases = (jax.random.normal(keys[3], (5,)), jax.random.normal(keys[4], (7,)))
    theirs = x
    for kernel, bias, size, stride in zip(kernels, biases, (4, 3), (1, 2), strict=True):
        square = kernel.reshape(size, size, len(theirs), -1)
        theirs = jax.lax.conv_general_dilated(
            theirs, square, (stride, stride), "VALID", dimension_numbers=("CHWN", "HWIO", "CHWN")
        )
        theirs = jax.nn.relu(theirs + bias[:, None, None, None])
    assert np.allclose(convolve_twice(x, kernels, biases), theirs, atol=1e-3)


@pytest.mark.parametrize("count", [1, 5, 6, 7])
def test_blocks_change_neither_values_nor_gradients(count):
    x = jax.random.normal(jax.random.key(0), (count, 3))
    square = partial(in_blocks, lambda rows: rows**2, size=3)
    assert np.allclose(square(x), x**2)
    assert np.allclose(jax.grad(lambda x: square(x).sum())(x), 2 * x)


@pytest.mark.parametrize("shape", [(7, 20, 20, 3), (7, 4, 14, 3), (7, 11, 9, 3), (7, 1, 1, 3), (7, 5)])
def test_representations_of_pixels_and_vectors(shape):
    sample = jax.random.uniform(jax.random.key(0), shape) * 255
    network = Representation(sample, 10, key=jax.random.key(1))
    features = network(sample)
    assert features.shape == (7, 10)
    assert np.isfinite(features).all()
    assert (features >= 0).all()
    corners = sample.at[0, ..., -1:, -1:, :].add(50) if len(shape) == 4 else sample.at[0, -1].add(50)
    assert not np.allclose(network(corners)[0], features[0]), "every pixel is seen"


def test_images_are_padded_to_what_the_convolutions_cover():
    for side in range(1, 30):
        padded = padded_side(side)
        first = padded - 4 + 1
        assert padded >= side
        assert first >= 3
        assert (first - 3) % 2 == 0
