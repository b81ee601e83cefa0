"""Whole numbers as short text, so that a page of a few megabytes holds every plan of several
worlds."""

from collections.abc import Iterable

import numpy as np

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
LARGEST = 64**2 - 1
"""What two characters hold at most."""


def pack(numbers: Iterable[int] | np.ndarray, width: int = 2) -> str:
    """Each number as `width` characters to the base of 64, highest first.

    >>> pack([0, 65], 2)
    'AABB'
    """
    values = np.asarray(list(numbers), np.int64)
    if values.size and (values.min() < 0 or values.max() >= 64**width):
        raise ValueError(
            f"numbers from {values.min()} to {values.max()} do not fit into {width} characters"
        )
    digits = [(values // 64**power) % 64 for power in reversed(range(width))]
    return "".join(ALPHABET[d] for d in np.stack(digits, axis=-1).ravel()) if values.size else ""


def pack_shares(shares: np.ndarray) -> list[int]:
    """Probabilities as whole numbers of 1/4095; what is there at all never becomes zero."""
    return np.maximum(np.round(np.asarray(shares) * LARGEST), 1).astype(int).tolist()
