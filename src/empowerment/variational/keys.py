"""Random keys. The rule of the package: a key is split once, where it arrives, and every child has
a name.

`jax.random.split(key, n)[i]` equals `jax.random.fold_in(key, i)`: a key that is both split and
folded, or split twice, gives the same numbers twice. Programs that start from the same seed get
unrelated keys from `seed_key`.
"""

import zlib
from typing import Any

import jax
from jaxtyping import Array, Key

from .config import is_whole

MOST_SEEDS = 2**32
"""JAX's generators tell no more apart."""


def check_seed(seed: Any) -> None:
    if not is_whole(seed, 0, MOST_SEEDS - 1):
        raise ValueError(f"seed={seed!r} must be a whole number of 0 or more, below 2^32")


def seed_key(seed: Any, purpose: str) -> Key[Array, ""]:
    """The key of a seed for one purpose; keys for other purposes are unrelated to it."""
    check_seed(seed)
    return jax.random.fold_in(jax.random.key(int(seed)), zlib.crc32(purpose.encode()))
