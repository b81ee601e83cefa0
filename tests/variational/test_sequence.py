import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from empowerment.variational.representation import (
    Representation,
    convolve_twice,
    in_blocks,
    padded_side,
    rectified,
    whitening,
)
from empowerment.variational.sequence import Categorical, Gaussian, Sequence

HORIZON, ACTIONS = 3, 4
EVERY = jnp.array(list(itertools.product(range(ACTIONS), repeat=HORIZON)))


def model(prefix="whole", inputs=2, layers=2):
    keys = jax.random.split(jax.random.key(0))
    new = Sequence(Categorical(ACTIONS), HORIZON, 6, 16, inputs, prefix, layers=layers, key=keys[0])
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


def test_further_layers_are_added_to_the_second():
    two, four = model(), model(layers=4)
    assert (len(two.deeper), len(four.deeper)) == (0, 2)
    before, after = (m.log_prob(context(m, len(EVERY)), EVERY) for m in (two, four))
    assert np.exp(after).sum() == pytest.approx(1, abs=1e-5)
    assert not np.allclose(before, after, atol=0.01)
    object.__setattr__(four, "deeper", tuple(jnp.zeros_like(x) for x in four.deeper))
    assert np.allclose(before, four.log_prob(context(four, len(EVERY)), EVERY))


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
    first = [
        np.exp(m.log_prob(context(m, 16), EVERY[i * 16 : i * 16 + 16])).sum() for i in range(4)
    ]
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


def test_gradients_of_convolutions_are_those_of_the_library():
    keys = jax.random.split(jax.random.key(0), 3)
    x, kernels = jax.random.normal(keys[0], (3, 8, 10, 2)), (jax.random.normal(keys[1], (48, 5)),)
    kernels = (*kernels, jax.random.normal(keys[2], (45, 7)))

    def ours(x, kernels):
        return (convolve_twice(x, kernels, (jnp.zeros(5), jnp.zeros(7))) ** 2).sum()

    def theirs(x, kernels):
        for kernel, size, stride in zip(kernels, (4, 3), (1, 2), strict=True):
            square = kernel.reshape(size, size, len(x), -1)
            x = jax.nn.relu(
                jax.lax.conv_general_dilated(
                    x, square, (stride, stride), "VALID", dimension_numbers=("CHWN", "HWIO", "CHWN")
                )
            )
        return (x**2).sum()

    for a, b in zip(
        jax.tree.leaves(jax.grad(ours, (0, 1))(x, kernels)),
        jax.tree.leaves(jax.grad(theirs, (0, 1))(x, kernels)),
        strict=True,
    ):
        assert np.allclose(a, b, rtol=1e-3, atol=1e-3 * np.abs(b).max())


@pytest.mark.parametrize("count", [1, 5, 6, 7])
def test_blocks_change_neither_values_nor_gradients(count):
    x, factor = jax.random.normal(jax.random.key(0), (count, 3)), jnp.array([1.0, 2.0, 3.0])

    def scaled(factor, rows):
        return in_blocks(lambda m, part: m * part**2, factor, x, 3, rows)

    assert np.allclose(scaled(factor, None), factor * x**2)
    assert np.allclose(jax.grad(lambda m: scaled(m, None).sum())(factor), (x**2).sum(0))
    assert np.allclose(
        scaled(factor, jnp.array([count // 2]))[: count // 2], (factor * x**2)[: count // 2]
    )


@pytest.mark.parametrize(
    "shape", [(7, 20, 20, 3), (7, 4, 14, 3), (7, 11, 9, 3), (7, 1, 1, 3), (7, 5)]
)
def test_representations_of_pixels_and_vectors(shape):
    sample = jax.random.uniform(jax.random.key(0), shape) * 255
    network = Representation(sample, 10, key=jax.random.key(1))
    features = network(sample)
    assert features.shape == (7, 10)
    assert np.isfinite(features).all()
    assert (features >= 0).all()
    corners = (
        sample.at[0, ..., -1:, -1:, :].add(50) if len(shape) == 4 else sample.at[0, -1].add(50)
    )
    assert not np.allclose(network(corners)[0], features[0]), "every pixel is seen"


def test_whitened_colours_vary_alike_in_every_direction():
    mix = jnp.array([[60.0, 20.0, 5.0], [0.0, 30.0, 5.0], [0.0, 0.0, 20.0]])
    colours = jax.random.normal(jax.random.key(0), (50, 8, 8, 3)) @ mix
    colours = colours - colours.mean((0, 1, 2))
    white = np.asarray(colours @ whitening(colours)).reshape(-1, 3)
    assert np.allclose(white.T @ white / len(white), np.eye(3), atol=0.02)


def test_whitening_does_not_blow_up_what_never_varies():
    grey = jax.random.normal(jax.random.key(0), (50, 8, 8, 1)) * jnp.array([10.0, 10.0, 10.0])
    largest = np.linalg.norm(whitening(grey), 2)
    assert largest < 5
    assert np.isfinite(whitening(jnp.zeros((5, 8, 8, 3)))).all()


def test_a_standardised_layer_is_never_silent():
    x = jax.random.normal(jax.random.key(0), (20, 16)) - 10
    assert (rectified(x, False) == 0).all()
    assert (rectified(x, True) > 0).any(axis=1).all()


def test_images_are_padded_to_what_the_convolutions_cover():
    for side in range(1, 30):
        padded = padded_side(side)
        first = padded - 4 + 1
        assert padded >= side
        assert first >= 3
        assert (first - 3) % 2 == 0


@pytest.mark.parametrize(("power", "components"), [(None, 1), (2.0, 1), (None, 3)])
def test_densities_of_vectors_integrate_to_one(power, components):
    family = Gaussian(1, power, components)
    edges = np.linspace(-1, 1, 40_001) if power is None else np.linspace(-30, 30, 40_001)
    points = jnp.asarray((edges[1:] + edges[:-1]) / 2, jnp.float32)[:, None]
    outputs = jnp.linspace(0.4, -0.7, family.outputs)[None].repeat(len(points), axis=0)
    density = np.exp(np.asarray(family.log_prob(outputs, points), np.float64))
    assert (density * np.diff(edges)).sum() == pytest.approx(1, abs=1e-3)


def test_the_density_of_a_squashed_number_by_hand():
    """a = tanh(u), u normal with mean 0.87 * 0.5 and standard deviation 0.87: ln N(u) - ln(1 -
    a²)."""
    action = np.tanh(0.3)
    expected = (
        -0.5 * ((0.3 - 0.435) / 0.87) ** 2
        - np.log(0.87)
        - 0.5 * np.log(2 * np.pi)
        - np.log(1 - action**2)
    )
    given = Gaussian(1).log_prob(jnp.array([[0.5, 0.0]]), jnp.array([[action]]))
    assert float(given[0]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("power", [None, 2.0])
def test_vectors_are_drawn_with_their_density(power):
    """A sequence model of vectors: the mean of -ln p of its samples is what its samples' own spread
    says."""
    family, n = Gaussian(2, power), 20_000
    outputs = jnp.array([[0.3, -0.2, -0.5, 0.4]]).repeat(n, axis=0)
    drawn = family.sample(outputs, jax.random.key(0))
    normal = np.asarray(jnp.arctanh(drawn) if power is None else drawn) / family.scale
    assert np.allclose(normal.mean(0), [0.3, -0.2], atol=0.05)
    log_std = np.log(normal.std(0))
    assert np.allclose(log_std, [-7 * np.tanh(0.5 / 7), np.tanh(0.4)], atol=0.03)
    assert np.allclose(family.mode(outputs)[0], np.median(drawn, axis=0), atol=0.05)


def test_components_lie_side_by_side_and_are_drawn_by_weight():
    """Three components of narrow spread: numbers come from -2/3, 0 and 2/3, as often as the weights
    say."""
    family, n = Gaussian(1, components=3), 20_000
    outputs = jnp.array([[0.0, 0.0, 0.0, -9.0, -9.0, -9.0, 0.0, np.log(2.0), 0.0]]).repeat(
        n, axis=0
    )
    drawn = np.asarray(family.sample(outputs, jax.random.key(0)))
    nearest = np.abs(drawn - np.array([-2 / 3, 0, 2 / 3])).argmin(-1)
    assert np.abs(drawn[:, 0] - np.array([-2 / 3, 0, 2 / 3])[nearest]).max() < 0.01
    assert np.allclose(np.bincount(nearest) / n, [0.25, 0.5, 0.25], atol=0.02)
    assert float(family.mode(outputs)[0, 0]) == pytest.approx(0, abs=1e-6)
    with pytest.raises(ValueError, match="components"):
        Gaussian(1, 2.0, 3)


@pytest.mark.parametrize("out", [-50.0, 50.0])
def test_components_cannot_hide_at_the_edge(out):
    """However far out their means are sent, draws stay where their density is known: the mean of
    -ln p of narrow and of wide components is their entropy."""
    family, n = Gaussian(1, components=2), 20_000
    for spread in (-20.0, 20.0):
        outputs = jnp.array([[out, out, spread, spread, 0.0, 0.0]]).repeat(n, axis=0)
        drawn = family.sample(outputs, jax.random.key(0))
        _, log_std, _ = family._parameters(outputs[:1])
        normal = np.arctanh(np.asarray(drawn, np.float64))
        stretch = np.log(1 - np.tanh(normal) ** 2)
        entropy = 0.5 * np.log(2 * np.pi * np.e) + float(log_std.min()) + stretch.mean()
        assert -float(family.log_prob(outputs, drawn).mean()) == pytest.approx(entropy, abs=0.05)
        assert np.abs(drawn).max() < 1 - 1e-6


def test_components_are_nearly_even_at_first():
    points = jnp.linspace(-0.98, 0.98, 50)[:, None]
    density = np.exp(np.asarray(Gaussian(1, components=8).log_prob(jnp.zeros((50, 24)), points)))
    assert np.allclose(density, 0.5, atol=0.15)


def test_vectors_stay_within_their_bounds():
    wide = jnp.array([[3.0, 9.0]]).repeat(1000, axis=0)
    drawn = Gaussian(1).sample(wide, jax.random.key(0))
    assert np.abs(drawn).max() < 1
    assert np.isfinite(Gaussian(1).log_prob(wide, drawn)).all()
    even = np.asarray(Gaussian(3).uniform((5, 2000), jax.random.key(1)))
    assert even.shape == (5, 2000, 3)
    assert even.var() == pytest.approx(1 / 3, abs=0.01)
    free = np.asarray(Gaussian(2, 3.0).uniform((9000,), jax.random.key(1)))
    assert (free**2).sum(-1).mean() == pytest.approx(3, rel=0.05)


def test_each_step_of_a_sequence_of_vectors_sees_those_before_it():
    m = Sequence(Gaussian(2), 3, 6, 16, 1, key=jax.random.key(0))
    object.__setattr__(m, "last", jax.random.normal(jax.random.key(3), m.last.shape))
    actions = jax.random.uniform(jax.random.key(4), (1, 3, 2), minval=-0.9, maxval=0.9)
    steps = jax.grad(lambda a: m.log_prob(context(m), a)[0])(actions)
    assert (np.abs(steps) > 1e-4).all()
    drawn = m.sample(context(m, 7), key=jax.random.key(5))
    assert drawn.shape == (7, 3, 2)
