"""A key is split once and its children are named: no two parts of a program draw the same
numbers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empowerment as emp
from empowerment.model_based.learned import Network, Transitions
from empowerment.variational import training
from empowerment.variational.config import Config, make_config
from empowerment.variational.keys import seed_key
from empowerment.variational.learner import Model
from empowerment.variational.sequence import Categorical, Gaussian


def matrices(model):
    """Every array that was drawn, flattened: those that start as constants say nothing."""
    arrays = [np.asarray(x).ravel() for x in jax.tree.leaves(model)]
    return [x for x in arrays if x.size >= 64 and np.unique(x).size > x.size // 2]


DEEP = Config(horizon=3, hidden=24, features=20, layers=5)
WIDE = Config(horizon=3, hidden=24, features=20)
PIXELS = np.random.default_rng(0).integers(0, 255, (8, 12, 12, 3)).astype(np.uint8)
VECTORS = np.random.default_rng(0).normal(size=(8, 20)).astype(np.float32)


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: Model(DEEP, Categorical(4), jnp.asarray(PIXELS), key=key),
        lambda key: Model(WIDE, Gaussian(2, 1.0), jnp.asarray(VECTORS), key=key),
        lambda key: Network(
            Transitions(*map(jnp.asarray, (VECTORS, VECTORS[:, :2], VECTORS))), 24, key=key
        ),
    ],
    ids=["pixels", "vectors", "dynamics"],
)
def test_no_two_initial_matrices_are_correlated(draw):
    drawn = matrices(draw(jax.random.key(0)))
    assert len(drawn) >= 2
    for a, b in itertools.combinations(drawn, 2):
        size = min(a.size, b.size)
        assert abs(np.corrcoef(a[:size], b[:size])[0, 1]) < 6 / np.sqrt(size)


def test_a_seed_gives_unrelated_keys_for_each_purpose():
    keys = {
        bytes(np.asarray(jax.random.key_data(k))) for k in jax.random.split(jax.random.key(0), 100)
    }
    purposes = [
        seed_key(0, purpose)
        for purpose in ("train", "source", "measure", "scale", "model", "futures")
    ]
    data = {bytes(np.asarray(jax.random.key_data(k))) for k in purposes}
    assert len(data) == len(purposes)
    assert not data & keys


@pytest.mark.parametrize(
    ("name", "options"),
    [("two-rooms", {}), ("two-rooms", {"slip": 0.1}), ("box-movable", {}), ("pendulum", {})],
)
def test_no_update_uses_a_key_twice(name, options):
    """JAX sees keys that are used twice, except by `fold_in`."""
    config = {"updates": 2, "batch": 16, "hidden": 16, "features": 12}
    world = emp.make(name, **options)
    with jax.debug_key_reuse(True):
        run = training.prepare(world, make_config(world, 2, config))
        training._chunks(run)(run.init(0), 2)
