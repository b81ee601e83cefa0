"""Probabilities that callers pass: how far the sum of a row may be from one."""

import numpy as np

EXACT, LOOSEST = 1e-9, 0.05
"""Error of the sum of a row of float64, and of any type."""


def sum_tolerance(dtype: np.dtype, length: int) -> float:
    """How far a row of `length` probabilities that were worked out in this type may sum from one.

    Rounding adds up as a random walk does: a softmax in float32 over a thousand entries is off by
    about 1e-6.
    """
    if dtype.kind in "iub" or dtype.itemsize >= 8:
        return EXACT
    known = np.issubdtype(dtype, np.floating)  # bfloat16 is none of NumPy's
    epsilon = float(np.finfo(dtype).eps) if known else 2.0**-7
    return min(8 * epsilon * float(np.sqrt(length)), LOOSEST)
