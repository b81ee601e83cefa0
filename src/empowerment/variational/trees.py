"""Pytrees of arrays by name: what a checkpoint holds."""

import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by the names of their places; random keys as their data."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    out = {}
    for path, leaf in leaves:
        leaf = jax.random.key_data(leaf) if _is_key(leaf) else leaf
        out[jax.tree_util.keystr(path, simple=True, separator="/")] = np.asarray(leaf)
    return out


def unflatten(like: Any, arrays: dict[str, np.ndarray], source: str) -> Any:
    """A pytree of the same structure as `like`, of arrays or only their shapes; names, shapes and
    types must agree."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    named = {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
    if set(named) != set(arrays):
        odd = sorted(set(named) ^ set(arrays))[0]
        raise ValueError(
            f"{source} does not fit its run: {odd!r} is missing or not expected; train again"
        )
    for name, leaf in named.items():
        expected = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
        if arrays[name].shape != expected.shape or arrays[name].dtype != expected.dtype:
            raise ValueError(
                f"{source} does not fit its run: {name!r} is "
                f"{arrays[name].dtype}{arrays[name].shape} and should be "
                f"{expected.dtype}{expected.shape}; train again"
            )
    given = {name: jnp.asarray(arrays[name]) for name in named}
    new = [
        jax.random.wrap_key_data(given[name]) if _is_key(leaf) else given[name]
        for name, leaf in named.items()
    ]
    return jax.tree_util.tree_unflatten(structure, new)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def digest(arrays: dict[str, np.ndarray], facts: str) -> str:
    """A checksum over arrays, their names, types and shapes, and the facts that go with them."""
    running = hashlib.sha256(facts.encode())
    for name in sorted(arrays):
        running.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        running.update(np.ascontiguousarray(arrays[name]).tobytes())
    return running.hexdigest()
