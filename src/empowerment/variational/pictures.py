"""Pictures are much alike: each distinct one of a batch, or each distinct patch of a world's, is
encoded only once."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped, UInt8, UInt32

PATCH, STRIDE = 6, 2
"""Side of the patch that one place of the convolutions' output sees, and how far the next one is
from it."""
WORTHWHILE = 0.4
"""A mosaic is made of patches if at most this share of all patches are distinct; else pictures are
encoded whole."""
SLOTS = 32
"""Slots for each row when equal ones are looked for: the more there are, the fewer are shared by
different rows."""


class UniqueFrames(NamedTuple):
    """A batch of pictures with its distinct ones first. Only these are encoded."""

    frames: UInt8[Array, "n rows columns channels"]
    count: Int[Array, "1"]
    """How many; in a list, so that every device can have its own."""


class PatchTable(NamedTuple):
    """Pictures as patches, each distinct one once. Equal patches at different places count as
    different, since pictures are centred place by place."""

    patches: Shaped[Array, "distinct side side channels"]
    places: Int[Array, "distinct"]
    """Where in a picture each patch is."""
    index: Int[Array, "n places"]
    """Which patch is at each place of each picture."""


def patch_table(frames: np.ndarray) -> PatchTable | None:
    """The pictures of a world as patches; None where these are too many, or where there are no
    pictures."""
    if frames.ndim != 4:
        return None
    patches = np.ascontiguousarray(patches_of(jnp.asarray(frames)))
    n, places = patches.shape[:2]
    names = patches.reshape(n, places, -1).view(np.uint8)
    index, first = np.empty((n, places), np.int32), []
    for place in range(places):
        _, where, number = np.unique(
            names[:, place], axis=0, return_index=True, return_inverse=True
        )
        index[:, place] = sum(map(len, first)) + number.reshape(-1)
        first.append(where)
    where = np.concatenate([np.repeat(place, len(one)) for place, one in enumerate(first)])
    if len(where) > WORTHWHILE * n * places:
        return None
    return PatchTable(
        jnp.asarray(patches[np.concatenate(first), where]),
        jnp.asarray(where, jnp.int32),
        jnp.asarray(index),
    )


def patches_of(
    frames: Shaped[Array, "n rows columns channels"],
) -> Shaped[Array, "n places side side channels"]:
    """What each place of the convolutions' output sees; beyond the picture zeros."""
    frames = jnp.pad(
        frames, [(0, 0), *((0, padded_side(n) - n) for n in frames.shape[1:3]), (0, 0)]
    )
    corners = [range(0, n - PATCH + 1, STRIDE) for n in frames.shape[1:3]]
    return jnp.stack(
        [frames[:, i : i + PATCH, j : j + PATCH] for i in corners[0] for j in corners[1]], axis=1
    )


def distinct(rows: Any) -> tuple[Int[Array, "n"], Int[Array, "1"], Int[Array, "n"]]:
    """Of a batch of states: in which order the distinct ones come first, how many these are, and
    which of them, in that order, each row is.

    Rows meet in slots by a number made of their contents, where each is compared with the last one
    there: those that differ from it count as distinct. So few equal rows are missed, and no
    different ones taken for equal.
    """
    contents = jnp.concatenate([_whole(x) for x in jax.tree.leaves(rows)], axis=1)
    n, own = len(contents), jnp.arange(len(contents), dtype=jnp.int32)
    slots = 1 << (SLOTS * n - 1).bit_length()
    slot = (_number(contents) >> (33 - slots.bit_length())).astype(jnp.int32)
    last = jnp.zeros(slots, jnp.int32).at[slot].max(own)[slot]
    like = jnp.where((contents[last] == contents).all(1), last, own)
    first = like == own
    number = jnp.cumsum(first, dtype=jnp.int32) - 1
    order = jnp.zeros(n, jnp.int32).at[jnp.where(first, number, n)].set(own, mode="drop")
    return order, number[-1:] + 1, number[like]


def _whole(x: Shaped[Array, "n ..."]) -> UInt32[Array, "n numbers"]:
    """The contents of each row as whole numbers, which are equal only where the contents are."""
    x = jnp.asarray(x).reshape(len(x), -1)
    if jnp.issubdtype(x.dtype, jnp.floating):
        return jax.lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32)
    return x.astype(jnp.uint32)


def _number(contents: UInt32[Array, "n numbers"]) -> UInt32[Array, "n"]:
    """A number for each row, which different rows seldom share."""
    factors = (
        np.random.default_rng(0).integers(2**31, size=contents.shape[1], dtype=np.uint32) * 2 + 1
    )
    number = (contents * factors[None]).sum(1, dtype=jnp.uint32)
    return (number ^ (number >> 15)) * jnp.uint32(0x9E3779B1)


def padded_side(side: int) -> int:
    """The side that an image is padded to: even and at least six, so that the convolutions see all
    of it."""
    return max(PATCH, side + side % 2)
