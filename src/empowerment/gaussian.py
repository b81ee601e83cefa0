"""Exact empowerment of linear worlds with Gaussian noise and bounded power, in float64."""

import numpy as np


def gaussian_channel(
    carried: np.ndarray, pushed: np.ndarray, covariance: np.ndarray, horizon: int
) -> tuple[np.ndarray, np.ndarray]:
    """K steps of s' = A s + B a + e at once: the matrix that takes all K actions to s', and the
    noise's covariance."""
    powers = [np.linalg.matrix_power(carried, k) for k in reversed(range(horizon))]
    matrix = np.concatenate([power @ pushed for power in powers], axis=1)
    return matrix, sum(
        (power @ covariance @ power.T for power in powers), np.zeros_like(covariance)
    )


def gaussian_gains(matrix: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Squared singular values of the channel with its noise whitened, one for each direction of the
    input."""
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), matrix)
    values = np.linalg.svd(whitened, compute_uv=False) ** 2
    return np.concatenate([values, np.zeros(matrix.shape[1] - len(values))])


def water_filling(gains: np.ndarray, power: float, beta: float = 1.0) -> tuple[float, np.ndarray]:
    """The largest (1/β) H(a) - H(a|s') of independent channels s' = √g a + e of unit noise, with Σ
    E[a²] <= power.

    Nats, and the variances that reach it. At β = 1 this is water-filling, ½ Σ ln(1 + g v) with v =
    max(level - 1/g, 0). Below 1 entropy itself is worth something, in the units of the actions, and
    every variance is positive. Above 1 there is no largest value: it grows without limit as a
    variance goes to zero.
    """
    if not 0 < beta <= 1:
        raise ValueError(
            f"beta={beta!r} has no optimum for continuous actions; give more than 0 and at most 1"
        )
    worth = 1 / beta - 1

    def variances(price: float) -> np.ndarray:
        # worth / v + g / (1 + g v) = price, a quadratic in v
        linear = price - gains * (worth + 1)
        root = (np.sqrt(linear**2 + 4 * price * gains * worth) - linear) / (
            2 * price * np.where(gains > 0, gains, 1.0)
        )
        return np.where(gains > 0, np.maximum(root, 0.0), worth / price)

    best = gains.max()
    if best == 0 and not worth:
        return 0.0, np.zeros_like(gains)
    # At the lowest price the best direction alone would take all the power.
    low = (worth / power if best == 0 else (worth + 1) / (power + 1 / best)) / 2
    high = (best + (worth + 1) * len(gains) / power) * 2
    for _ in range(200):
        price = np.sqrt(low * high)
        low, high = (price, high) if variances(price).sum() > power else (low, price)
    spread = variances(high)
    entropy = 0.5 * np.log(2 * np.pi * np.e * spread[spread > 0]).sum() if worth else 0.0
    return float(worth * entropy + 0.5 * np.log1p(gains * spread).sum()), spread


def linear_empowerment(
    carried: np.ndarray,
    pushed: np.ndarray,
    covariance: np.ndarray,
    horizon: int,
    power: float,
    beta: float = 1.0,
) -> float:
    """Empowerment over K steps of s' = A s + B a + e, the same in every state; each action has mean
    power `power`."""
    gains = gaussian_gains(*gaussian_channel(carried, pushed, covariance, horizon))
    return water_filling(gains, horizon * power, beta)[0]
