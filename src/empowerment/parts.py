"""Exact landscapes in parts: by several processes of one machine, or by the tasks of a job array.

States are divided into consecutive parts, and parts are joined in order, so that the result does
not depend on how many there were. Each part enumerates only what its own states can reach.
"""

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from .exact import check_states, exact
from .landscape import Landscape
from .worlds.world import State, World, check_world, concatenate, leaves, take

PARTS_EACH = 4
"""Parts for each process, so that none waits long for another whose states are harder."""


def exact_in_processes(
    world: World,
    horizon: int,
    states: State | None = None,
    *,
    processes: int,
    tolerance: float = 1e-9,
) -> Landscape:
    """`emp.exact` by several processes of this machine; the world has to be one that can be
    pickled."""
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise ValueError(f"processes={processes!r} must be a whole number of 1 or more")
    check_world(world)
    states = world.states() if states is None else check_states(world, states)
    work = partial(exact_part, world, horizon, states, tolerance=tolerance)
    parts = min(processes * PARTS_EACH, len(leaves(states)[0]))
    try:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            return join(list(pool.map(partial(work, parts=parts), range(parts))))
    except BrokenProcessPool:
        raise ChildProcessError(
            "a process was ended from outside, or could not begin; give fewer processes if memory "
            "was short"
        ) from None


def exact_part(
    world: World,
    horizon: int,
    states: State | None,
    part: int,
    *,
    parts: int,
    tolerance: float = 1e-9,
) -> Landscape:
    """Part number `part`, from 0, of `parts`."""
    states = world.states() if states is None else states
    count = len(leaves(states)[0])
    if not 0 <= part < parts or parts > count:
        raise ValueError(
            f"part {part} of {parts} is none; number parts from 0, and give at most {count} for "
            "the states"
        )
    first, last = (count * i // parts for i in (part, part + 1))
    return exact(world, horizon, take(states, slice(first, last)), tolerance=tolerance)


def join(parts: Sequence[Landscape]) -> Landscape:
    """One landscape from its parts, in order."""
    first = parts[0]
    for part in parts:
        if (part.world, part.horizon) != (first.world, first.horizon):
            raise ValueError(
                f"the parts are of {first.world!r} at horizon {first.horizon} and of "
                f"{part.world!r} at horizon "
                f"{part.horizon}; join parts of one landscape"
            )
    positions = (
        None if first.positions is None else np.concatenate([_positions(part) for part in parts])
    )
    values = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("nats", "lower", "upper")
    }
    return replace(
        first, states=concatenate([part.states for part in parts]), positions=positions, **values
    )


def save_part(
    world: World, land: Landscape, directory: Path, part: int, parts: int
) -> Landscape | None:
    """Keep a part in a directory; the whole landscape once all parts are there.

    Parts are named by what they are of, so that those of another map or horizon are never joined.
    Of several tasks that finish together each may find all parts; they then join the same files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    whole = hashlib.sha256(
        json.dumps([world.spec(), land.horizon], sort_keys=True).encode()
    ).hexdigest()[:12]
    paths = [directory / f"{whole}-{i}-of-{parts}.part" for i in range(parts)]
    land.save(paths[part])
    return (
        join([Landscape.load(path) for path in paths])
        if all(path.is_file() for path in paths)
        else None
    )


def read_part(text: str) -> tuple[int, int]:
    """ "3/8" as 3 and 8."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdigit() and parts.isdigit() and int(part) < int(parts)):
        raise ValueError(f"part={text!r} is not I/N; give for example 0/8, and number parts from 0")
    return int(part), int(parts)


def _positions(part: Landscape) -> np.ndarray:
    assert part.positions is not None
    return part.positions
