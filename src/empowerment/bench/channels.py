"""Channels without a state whose capacity is known: what `emp.maximise_information` is scored
on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import poisson

from ..capacity import capacity
from ..gaussian import water_filling

ANTENNAS = np.array([[1.5, 0.6], [-0.3, 0.7]], np.float32)
RATES = np.linspace(0.5, 10.5, 24)
POWER = 4.0
MOST_SPIKES = 80
"""More spikes than this are counted as this many, of which the largest rate has a chance below
1e-40."""
ROUNDING = 1e-12


@dataclass(frozen=True)
class Channel:
    """A function that draws an output for each input of a batch, and what inputs are."""

    draw: Callable[..., Any]
    """`draw(inputs, rng)`, in NumPy."""
    inputs: int
    """How many symbols there are; of vectors, how many numbers."""
    power: float | None
    """Largest mean of the square of a vector; None where inputs are symbols."""
    truth: Callable[[], tuple[float, float, float]]
    """Capacity, and its proved lower and upper bounds."""


def flip(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A binary symmetric channel."""
    return x ^ (rng.random(x.shape) < 0.1)


def erase(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A binary erasure channel; 2 is an erasure."""
    return np.where(rng.random(x.shape) < 0.3, 2, x)


def noise(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Gaussian noise of unit variance."""
    return x + rng.standard_normal(x.shape)


def antennas(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two antennas that send and two that receive."""
    return noise(x @ ANTENNAS.T, rng)


def spikes(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Counts of a spiking neuron at one of 24 rates."""
    return rng.poisson(RATES[x])


def _closed_form(nats: float) -> tuple[float, float, float]:
    return nats, nats * (1 - ROUNDING), nats * (1 + ROUNDING)


def _entropy(p: float) -> float:
    return float(-p * np.log(p) - (1 - p) * np.log(1 - p))


@cache
def spike_matrix() -> np.ndarray:
    """Probabilities of each count at each rate."""
    matrix = poisson.pmf(np.arange(MOST_SPIKES + 1), RATES[:, None])
    return matrix / matrix.sum(1, keepdims=True)


def _spiking() -> tuple[float, float, float]:
    found = capacity(spike_matrix())
    return found.nats, found.lower, found.upper


def _water() -> tuple[float, float, float]:
    gains = np.linalg.svd(ANTENNAS.astype(float), compute_uv=False) ** 2
    return _closed_form(water_filling(gains, POWER)[0])


CHANNELS = {
    "flip": Channel(flip, 2, None, lambda: _closed_form(float(np.log(2)) - _entropy(0.1))),
    "erasure": Channel(erase, 2, None, lambda: _closed_form(0.7 * float(np.log(2)))),
    "gaussian": Channel(noise, 1, POWER, lambda: _closed_form(0.5 * float(np.log(1 + POWER)))),
    "antennas": Channel(antennas, 2, POWER, _water),
    "spikes": Channel(spikes, 24, None, _spiking),
}
