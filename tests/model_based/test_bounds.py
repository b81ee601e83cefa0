"""Reference bounds by hand, and beside the truth."""

import numpy as np
import pytest
from scipy.stats import norm

from empowerment.capacity import divergences
from empowerment.model_based.bounds import convexity_bound, gaussian_reference


def information(matrix, source):
    return source @ divergences(matrix, source)


def test_gaussian_reference_of_a_gaussian_channel():
    """x ~ N(0, P) through unit noise: J = 1, so that ½ ln P of ½ ln(1 + P) is left."""
    spacing, power = 0.01, 50.0
    places = np.arange(-60, 60, spacing)
    source = norm.pdf(places, scale=np.sqrt(power))
    value = gaussian_reference(source, np.ones_like(places), spacing)
    assert value == pytest.approx(0.5 * np.log(power), abs=1e-6)
    assert 0.5 * np.log(1 + power) - 0.02 < value < 0.5 * np.log(1 + power)


def test_convexity_bound_is_exact_at_the_output_distribution():
    matrix, source = np.array([[0.7, 0.3, 0.0], [0.1, 0.1, 0.8]]), np.array([0.4, 0.6])
    truth, output = information(matrix, source), source @ matrix
    assert convexity_bound(matrix, source, output) == pytest.approx(truth)
    other = np.array([0.2, 0.3, 0.5])
    loss = ((output - other) ** 2 / other).sum() - (output * np.log(output / other)).sum()
    assert convexity_bound(matrix, source, other) == pytest.approx(truth - loss)
    assert loss > 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gaussian_reference([1.0], [1.0, 2.0]), "two equal lists"),
        (lambda: gaussian_reference([0.5, 0.5], [1.0, 0.0]), "fisher must be positive"),
        (lambda: convexity_bound(np.eye(2), [0.5, 0.5], [1.0]), "for each column"),
        (lambda: convexity_bound(np.eye(2), [0.5, 0.5], [1.0, 0.0]), "mixture must be positive"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
