"""Which inputs the outputs of a JAX function depend on, proved by dead-code elimination.

The one place where a private function of JAX is used. Where JAX does not have it, every output is
taken to depend on every input, which is safe: nothing is then proved.
"""

from collections.abc import Sequence
from typing import Any

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
