"""The optimiser: which arrays it changes, and by how much."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from empowerment.variational.config import Config
from empowerment.variational.learner import MUON_RMS, Learner
from empowerment.variational.sequence import Categorical

RATE = 0.01
NESTEROV = 0.9 / (1 + 0.9) + 1


@pytest.fixture(scope="module")
def change():
    """What one update with a random gradient changes, and the model before it."""
    config = Config(horizon=2, hidden=24, features=16, learning_rate=10 * RATE, updates=100)
    learner = Learner(config, Categorical(4))
    frames = jax.random.randint(jax.random.key(1), (8, 12, 12, 3), 0, 255).astype(jnp.uint8)
    state = learner.init(frames, key=jax.random.key(0))
    leaves, tree = jax.tree.flatten(state.model)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    gradient = tree.unflatten(
        [jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
    )
    return learner._optimiser().update(gradient, state.optimiser, state.model)[0]


def test_matrices_are_changed_by_nearly_orthogonal_steps_of_one_size(change):
    """Muon: all singular values of a step are about equal, and its entries are as large in every
    matrix."""
    for matrix in (
        change.decoder.second,
        change.source.inputs[0],
        change.representation.dense[0],
        change.psi.network.layers[0],
    ):
        values = np.linalg.svd(np.asarray(matrix), compute_uv=False)
        assert values.max() / values.min() < 2.5
        assert np.sqrt(np.mean(np.square(matrix))) == pytest.approx(MUON_RMS * RATE, rel=0.25)


def test_all_other_arrays_are_changed_by_adam(change):
    """With Nesterov's momentum, the first step is 1 + β₁/(1 + β₁) times the rate, with the
    gradient's sign."""
    for array in (
        change.decoder.last,
        change.source.embedding,
        change.psi.network.biases[0],
        change.decoder.second_bias,
    ):
        assert np.abs(array) == pytest.approx(NESTEROV * RATE, rel=2e-3)
