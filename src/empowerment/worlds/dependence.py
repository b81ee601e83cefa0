"""What is proved of a JAX function: that it is pure, and which inputs its outputs depend on, by
dead-code elimination.

The one place where a private function of JAX is used. Where JAX does not have it, every output is
taken to depend on every input, which is safe: nothing is then proved.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

try:
    from jax._src.interpreters.partial_eval import dce_jaxpr
except ImportError:  # another version of JAX
    dce_jaxpr = None


def used_inputs(jaxpr: Any, outputs: Sequence[bool]) -> list[bool]:
    """For each input of a closed jaxpr, whether any of these outputs may depend on it."""
    everything = [True] * len(jaxpr.jaxpr.invars)
    if dce_jaxpr is None:
        return everything
    try:
        _, used = dce_jaxpr(jaxpr.jaxpr, list(outputs), False)
    except Exception:  # it is private, so anything may have changed
        return everything
    return list(used)


def traced_twice(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Shapes of what a world's function gives; a ValueError where it cannot be traced, or gives
    another program the second time."""
    programs, shapes = [], None
    for _ in range(2):
        try:
            fresh = partial(function)  # JAX remembers what it traced
            traced, shapes = jax.make_jaxpr(fresh, return_shape=True)(*args)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(
                f"world {name!r} cannot be traced by JAX ({type(error).__name__}: "
                f"{reason}); write step with jax.numpy and jax.lax only"
            ) from None
        programs.append((str(traced), [_bits(x) for x in traced.consts]))
    if programs[0] != programs[1]:
        raise ValueError(
            f"world {name!r} has a step that is not pure: traced twice, it gives two "
            "different programs; keep everything that changes in the state"
        )
    return shapes


def _bits(constant: Any) -> bytes:
    """What an array holds that a function closes over."""
    if jax.numpy.issubdtype(constant.dtype, jax.dtypes.prng_key):
        constant = jax.random.key_data(constant)
    return np.asarray(constant).tobytes()
