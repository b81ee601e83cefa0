"""Losses against numbers worked out by hand, finite differences, and Blahut-Arimoto."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from empowerment.capacity import posterior, source_update
from empowerment.variational.objective import (
    bound,
    decoder_loss,
    log_normaliser,
    psi_error,
    psi_loss,
    source_error,
    source_loss,
)


def test_decoder_loss_by_hand():
    assert decoder_loss(jnp.log(jnp.array([0.5, 0.25]))) == pytest.approx(1.5 * np.log(2))


def test_source_loss_by_hand():
    log_q, log_h, psi = jnp.array([-1.0, -2.0]), jnp.array([-3.0, -1.0]), jnp.array([1.0, 0.5])
    # beta = 2: errors -2 + 3 - 1 = 0 and -4 + 1 - 0.5 = -3.5
    assert np.allclose(source_error(log_q, log_h, psi, 2.0), [0.0, -3.5])
    assert source_loss(source_error(log_q, log_h, psi, 2.0)) == pytest.approx(3.5**2 / 2)


def test_psi_error_by_hand():
    assert np.allclose(psi_error(jnp.array([1.0, 2.0]), jnp.array([3.0, 0.5]), 2.0), [-5.0, 1.0])
    assert jax.grad(lambda values: psi_error(jnp.ones(1), values, 2.0).sum())(jnp.ones(1)) == 0


def test_psi_loss_by_hand():
    # exp(ln 2) - ln 2 - 1, and beyond 2 nats the tangent: exp(2) (1 + 3 - 2) - 3 - 1
    assert psi_loss(jnp.log(jnp.array([2.0]))) == pytest.approx(1 - np.log(2))
    assert psi_loss(jnp.array([3.0])) == pytest.approx(2 * np.exp(2) - 4)
    assert psi_loss(jnp.zeros(1)) == 0


@pytest.mark.parametrize(
    "behaviour", [[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1], [0.15, 0.05, 0.5, 0.3]]
)
def test_psi_is_log_z_whatever_the_behaviour(behaviour):
    """Four sequences, of which two share an end: Z = 1/2 + 1/2 + 1 + 1 = 3, whichever are drawn how
    often."""
    log_q, b = jnp.log(jnp.array([0.5, 0.5, 1.0, 1.0])), jnp.array(behaviour)
    drawn = np.repeat(range(4), np.rint(100 * np.array(behaviour)).astype(int))

    def loss(psi):
        return psi_loss(
            source_error(log_q[drawn], jnp.log(b)[drawn], jnp.broadcast_to(psi, drawn.shape), 1.0)
        )

    levels = jnp.linspace(0.5, 1.7, 1201)
    assert levels[jnp.argmin(jax.vmap(loss)(levels))] == pytest.approx(np.log(3), abs=1e-3)


def test_bound_by_hand():
    assert bound(np.log(0.5), np.log(0.125), 1.0) == pytest.approx(np.log(4))
    assert bound(np.log(0.5), np.log(0.125), 0.5) == pytest.approx(np.log(32))
    # Played at half the size: densities are twice as large, 1 and 0.25, and ln 1 - 2 ln 0.25 = ln
    # 16.
    assert bound(np.log(0.5), np.log(0.125), 0.5, np.log(0.5)) == pytest.approx(np.log(16))


def test_log_normaliser_by_hand():
    utilities = jnp.log(jnp.array([[0.5, 0.5, 1.0]]))
    assert log_normaliser(utilities, 1.0)[0] == pytest.approx(np.log(2))
    assert log_normaliser(utilities, 2.0)[0] == pytest.approx(np.log(1.5) / 2)


def test_the_decoder_is_held_fixed_in_the_source_loss():
    log_h, psi = jnp.array([-3.0]), jnp.array([1.0])
    assert jax.grad(lambda q: source_loss(source_error(q, log_h, psi, 1.0)))(jnp.array([-1.0])) == 0


@pytest.mark.parametrize("argument", [1, 2])
def test_gradients_are_finite_differences(argument):
    values = [jnp.array([-1.0, -2.5]), jnp.array([-3.0, -0.7]), jnp.array([1.0, 0.4])]
    gradient = jax.grad(lambda *v: source_loss(source_error(*v, 1.5)), argnums=argument)(*values)
    for i in range(2):
        step = jnp.zeros(2).at[i].set(1e-2)
        up, down = list(values), list(values)
        up[argument], down[argument] = values[argument] + step, values[argument] - step
        slope = (source_loss(source_error(*up, 1.5)) - source_loss(source_error(*down, 1.5))) / 2e-2
        assert gradient[i] == pytest.approx(float(slope), rel=1e-3)


def minimise(loss, table, steps=4000, rate=0.5):
    """Plain gradient descent with momentum, to convergence."""

    def body(carry, _):
        x, m = carry
        m = jax.tree.map(lambda a, b: 0.9 * a + b, m, jax.grad(loss)(x))
        return (jax.tree.map(lambda a, b: a - rate * b, x, m), m), None

    return jax.lax.scan(body, (table, jax.tree.map(jnp.zeros_like, table)), None, length=steps)[0][
        0
    ]


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_tabular_decoder_and_source_reproduce_blahut_arimoto(beta):
    """Appendix C: minimising the two losses in turn is one iteration."""
    counts = np.array([[6, 2, 0], [1, 6, 1], [2, 2, 4]])
    matrix, source = counts / 8, np.full(3, 1 / 3)
    # Samples (a, s') as often as p(s'|a) says; the uniform source gives each a the same share.
    inputs, outputs = (
        np.repeat(i, counts.ravel()) for i in np.indices(counts.shape).reshape(2, -1)
    )
    table = minimise(
        lambda t: decoder_loss(jax.nn.log_softmax(t, axis=0)[inputs, outputs]), jnp.zeros((3, 3))
    )
    decoder = np.exp(jax.nn.log_softmax(table, axis=0))
    assert np.allclose(decoder, posterior(matrix, source), atol=1e-3)

    log_q = jnp.asarray(np.log(np.maximum(posterior(matrix, source), 1e-30)), jnp.float32)[
        inputs, outputs
    ]

    def loss(tables):
        log_h = jax.nn.log_softmax(tables[0])[inputs]
        return source_loss(
            source_error(log_q, log_h, jnp.broadcast_to(tables[1], log_h.shape), beta)
        )

    logits, psi = minimise(loss, (jnp.zeros(3), jnp.zeros(())), rate=0.1)
    utilities = np.bincount(inputs, log_q, minlength=3) / 8
    assert np.allclose(
        jax.nn.softmax(logits), source_update(matrix, posterior(matrix, source), beta), atol=1e-3
    )
    assert psi / beta == pytest.approx(
        float(log_normaliser(jnp.asarray(utilities)[None], beta)[0]), abs=1e-3
    )
