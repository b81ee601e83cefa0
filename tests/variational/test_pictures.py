import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empowerment as emp
from empowerment.variational.collect import archive
from empowerment.variational.config import configure
from empowerment.variational.pictures import UniqueFrames, distinct, patch_table
from empowerment.variational.representation import BLOCK, Representation


def encoded(network, seen, weights):
    """Features, and the gradient of a sum of them with respect to the network."""
    total = eqx.filter_jit(
        eqx.filter_value_and_grad(lambda n: (n(seen)[: len(weights)] * weights).sum())
    )
    return network(seen)[: len(weights)], total(network)[1]


def assert_alike(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.allclose(a, b, atol=1e-4 * (1 + np.abs(b).max()))


@pytest.mark.parametrize("name", ["two-rooms", "box-fixed", "cross-room"])
@pytest.mark.parametrize("whiten", [False, True])
def test_a_mosaic_is_encoded_as_its_pictures_are(name, whiten):
    world = emp.make(name)
    frames = np.asarray(world.observe(world.states()))
    pieces = patch_table(frames)
    network = Representation(jnp.asarray(frames), 10, whiten, key=jax.random.key(0))
    weights = jax.random.normal(jax.random.key(1), (len(frames), 10))
    assert len(pieces.patches) < 0.4 * pieces.index.size
    assert_alike(encoded(network, pieces, weights), encoded(network, jnp.asarray(frames), weights))


def test_pictures_without_common_patches_are_no_mosaic():
    noise = np.random.default_rng(0).integers(256, size=(20, 12, 12, 3), dtype=np.uint8)
    assert patch_table(noise) is None
    assert patch_table(np.zeros((20, 5), np.float32)) is None, "vectors have no patches"


def test_only_the_distinct_pictures_count_however_many_there_are():
    rng = np.random.default_rng(0)
    some = rng.integers(256, size=(40, 20, 20, 3), dtype=np.uint8)
    frames = jnp.asarray(some[rng.integers(40, size=500)])
    network = Representation(frames, 10, key=jax.random.key(0))
    order, count, rows = distinct(frames)
    weights = jax.random.normal(jax.random.key(1), (500, 10))
    assert len(frames) > BLOCK // 400, "several blocks"

    def whole(network):
        return (network(frames) * weights).sum()

    def few(network):
        return (network(UniqueFrames(frames[order], count))[rows] * weights).sum()

    assert_alike(jax.value_and_grad(few)(network), jax.value_and_grad(whole)(network))


def test_distinct_rows_come_first_and_every_row_is_found():
    rng = np.random.default_rng(0)
    state = (
        jnp.asarray(rng.integers(5, size=(300, 2))),
        jnp.asarray(rng.integers(3, size=300) == 0),
    )
    order, count, rows = jax.jit(distinct)(state)
    for leaf in state:
        assert (leaf[order[rows]] == leaf).all()
    kinds = len(np.unique(np.column_stack([state[0], state[1]]), axis=0))
    assert kinds <= int(count[0]) <= 1.1 * kinds, "hardly any equal rows are missed"
    assert (rows < count[0]).all()


def test_rows_that_differ_are_told_apart_wherever_they_differ():
    state = jnp.asarray(np.random.default_rng(0).normal(size=(400, 7)), jnp.float32)
    order, count, rows = distinct(state)
    assert int(count[0]) == 400
    assert (order[rows] == np.arange(400)).all()


def test_a_large_world_shows_each_of_its_states_once():
    config = configure(3, {"batch": 256})
    world = emp.make("box-movable")
    where, stay = archive(world, config), world.actions.index("stay")

    class Standing:
        def __call__(self, frames, rows, *, key):
            return jnp.full((len(rows), 3), stay, jnp.int32), jnp.zeros(len(rows))

        def value(self, frames, rows):
            return jnp.zeros(len(rows))

    _, batch = where.collect(where.init(jax.random.key(0)), Standing(), key=jax.random.key(1))
    assert (batch.frames.frames[batch.start] == batch.frames.frames[batch.end]).all(), (
        "who stays sees the same picture"
    )
    assert (batch.start == batch.end).mean() > 0.95, (
        "which is encoded once, except for the few that are missed"
    )
    assert int(batch.frames.count[0]) < 256
