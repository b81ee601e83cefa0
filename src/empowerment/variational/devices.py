"""All devices of all processes as one mesh: windows are spread over it, and every device holds
all parameters.

Learning is one global computation on global arrays, so that what is drawn and learned does not
depend on how many devices there are (except for rounding: sums are taken in another order). What
each device does for its own share of the agents, such as observing, encoding and taking
gradients, is said with `per_device`, so that nothing is sent for it. A single device is a mesh
of `None`, on which all of this falls away.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.flatten_util import ravel_pytree
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from .trees import flatten, unflatten

AXIS = "devices"
REPLICATED, SHARDED = Spec(), Spec(AXIS)
"""The same on every device; or rows divided among them."""

_started_in: int | None = None
"""The process in which this package started JAX."""


def refuse_fork() -> None:
    """JAX's threads do not survive a fork: a forked process would wait for them forever."""
    global _started_in
    if _started_in is None:
        _started_in = os.getpid()
    elif _started_in != os.getpid():
        raise ValueError(
            "this process was forked after JAX had started, and JAX would hang in it; start "
            "processes by 'spawn': "
            "gymnasium.vector.AsyncVectorEnv(..., context='spawn'), or start_method='spawn' in "
            "Stable-Baselines3"
        )


@cache
def all_devices() -> Mesh | None:
    count = jax.device_count()
    return None if count == 1 else jax.make_mesh((count,), (AXIS,), (AxisType.Auto,))


def per_device(
    mesh: Mesh | None, function: Callable[..., Any], inputs: Any = SHARDED, outputs: Any = SHARDED
) -> Callable[..., Any]:
    """`function` on each device's share of the rows; `inputs` and `outputs` say what is shared and
    what is spread."""
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False)


def mean_over_devices(mesh: Mesh | None, tree: Any) -> Any:
    """Inside `per_device`: the mean of every array over all devices, in one message."""
    if mesh is None:
        return tree
    flat, restore = ravel_pytree(tree)
    return restore(jax.lax.pmean(flat, AXIS))


def gather_rows(mesh: Mesh | None, array: Any, axis: int) -> Any:
    """Inside `per_device`: the rows of all devices."""
    return array if mesh is None else jax.lax.all_gather(array, AXIS, axis=axis, tiled=True)


def constrain(mesh: Mesh | None, tree: Any, spec: Spec) -> Any:
    """Inside a compiled function: where these arrays are to be."""
    return (
        tree if mesh is None else jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, spec))
    )


def shardings(mesh: Mesh | None, specs: Any) -> Any:
    """What `place` and compiled functions take, from a tree of `REPLICATED` and `SHARDED`."""
    if mesh is None:
        return None
    return jax.tree.map(
        lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda x: isinstance(x, Spec)
    )


def place(tree: Any, sharding: Any) -> Any:
    """Put arrays that every process has onto the devices; `sharding` is a tree like them, or its
    beginning."""

    def one(array: Any, where: NamedSharding) -> Any:
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(one(jax.random.key_data(array), where))
        local = np.asarray(array)
        return jax.make_array_from_callback(local.shape, where, lambda index: local[index])

    if sharding is None:
        return tree
    return jax.tree.map(
        lambda where, part: jax.tree.map(lambda x: one(x, where), part), sharding, tree
    )


def local(tree: Any) -> Any:
    """This process's own copy of arrays that are the same everywhere."""
    return jax.tree.map(lambda x: x.addressable_data(0), tree)


def gathered(mesh: Mesh | None, tree: Any) -> Any:
    """The whole of every array in every process."""
    if mesh is None or jax.process_count() == 1:
        return tree
    return local(jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, REPLICATED))(tree))


def leads() -> bool:
    """Whether this process is the one that writes files and talks to the person."""
    return jax.process_index() == 0


def from_leader(arrays: Any) -> Any:
    """The leading process's NumPy arrays, in every process."""
    if jax.process_count() == 1:
        return arrays
    with naming_losses():
        return multihost_utils.broadcast_one_to_all(arrays)


def tree_from_leader(tree: Any) -> Any:
    """The leading process's pytree, in every process. Unlike in `from_leader`, it may contain
    random keys."""
    return (
        tree
        if jax.process_count() == 1
        else unflatten(tree, from_leader(flatten(tree)), "what process 0 sent")
    )


def by_leader(work: Callable[[], Any]) -> Any:
    """What `work` gives in the leading process, None in the others; where it is refused there, all
    stop."""
    done, problem = None, None
    if leads():
        try:
            done = work()
        except (ValueError, OSError) as error:
            problem = error
    if not from_leader(np.asarray(problem is None)):
        raise problem or ValueError("process 0 could not begin; see its message")
    return done


@contextlib.contextmanager
def naming_losses() -> Iterator[None]:
    """Says in one sentence that another process was lost in the middle of a message."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        sent = isinstance(error, jax.errors.JaxRuntimeError) or "Gloo" in str(error)
        if jax.process_count() == 1 or not sent:
            raise
        raise ConnectionError(
            f"process {jax.process_index()} of {jax.process_count()} lost another one; the last "
            "checkpoint stands: "
            "continue with resume (--resume), with any number of processes"
        ) from error
