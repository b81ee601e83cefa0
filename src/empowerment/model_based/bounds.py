"""Reference values beside the variational bound, for the same channels. All values are in nats."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy


def gaussian_reference(source: ArrayLike, fisher: ArrayLike, spacing: float = 1.0) -> float:
    """Brunel and Nadal (1998): H(x) - E[½ ln(2πe / J(x))], the information of an efficient Gaussian
    estimate of x.

    `source` holds the weights of a one-dimensional input at places `spacing` apart, `fisher` the
    Fisher information J(x) of the output there. No unbiased estimate of x has a smaller variance
    than 1/J(x) (Cramér-Rao), and a Gaussian of that variance has the entropy subtracted. It is a
    lower bound where such an estimate exists, as with many outputs or little noise, and only a
    reference elsewhere.
    """
    weights, information = np.asarray(source, float), np.asarray(fisher, float)
    if weights.shape != information.shape or weights.ndim != 1:
        raise ValueError(
            f"source and fisher have shapes {weights.shape} and {information.shape}; give two "
            "equal lists"
        )
    used = weights > 0
    if not (weights >= 0).all() or not (information[used] > 0).all():
        raise ValueError(
            "source must not be negative, and fisher must be positive wherever source is"
        )
    share = weights[used] / weights.sum()
    entropy = -(share * np.log(share / spacing)).sum()
    return float(entropy - (share * 0.5 * np.log(2 * np.pi * np.e / information[used])).sum())


def convexity_bound(matrix: ArrayLike, source: ArrayLike, mixture: ArrayLike) -> float:
    """Convexity of the logarithm (Jaakkola and Jordan 1998): -ln p(s') >= 1 - ln m(s') - p(s') /
    m(s').

    I(a; s') = -E[ln p(s')] - H(s'|a) >= E[1 - ln m(s') - p(s')/m(s')] - H(s'|a) for any positive
    `mixture` m: linear in p(s'), exact where m = p, and for an m that sums to one lower than the
    truth by χ²(p|m) - KL(p|m).
    """
    channel, weights, other = (np.asarray(x, float) for x in (matrix, source, mixture))
    if channel.ndim != 2 or weights.shape != channel.shape[:1] or other.shape != channel.shape[1:]:
        raise ValueError(
            f"matrix, source and mixture have shapes {channel.shape}, {weights.shape} and "
            f"{other.shape}; give a number "
            "of the source for each row and one of the mixture for each column"
        )
    output = weights @ channel
    if not (other[output > 0] > 0).all():
        raise ValueError("mixture must be positive wherever an output can occur")
    ends = output > 0
    conditional = -(weights @ xlogy(channel, channel).sum(1))
    return float(
        (output[ends] * (1 - np.log(other[ends]) - output[ends] / other[ends])).sum() - conditional
    )
