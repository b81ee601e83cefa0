"""Trainings that differ only by their seeds, side by side: one process on one core each, the rest waits its turn.

A training keeps little more than one core busy, so that several of them next to each other use a machine better than
one after the other. Each is exactly what it would be alone on that core; what one has compiled the others take from it.
"""

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from numbers import Integral
from pathlib import Path
from typing import Any

import jax
from tqdm import tqdm

from ..worlds.learnable import HostWorld
from ..worlds.world import World, check_world
from .checkpoint import RunDirectory
from .estimator import Estimator
from .settings import check_seed
from .training import load, refuse_existing, train


def train_seeds(
    world: World,
    horizon: int = 5,
    seeds: Iterable[int] = range(3),
    out: str | Path = "runs",
    resume: bool = False,
    progress: bool = True,
    **settings: Any,
) -> list[Estimator]:
    """Learn empowerment once for each seed, side by side on the cores of this machine; see `emp.train`.

    `out` keeps a run for each in `out/seed-0`, `out/seed-1` and so on. The world has to be one that can be pickled, and
    a script calls this under `if __name__ == "__main__":`, since each process reads the script first.
    """
    check_world(world)
    if isinstance(world, HostWorld):
        raise ValueError(f"environment {world.name!r} runs in this process only; call emp.train once for each seed")
    if isinstance(seeds, Integral):
        raise ValueError(f"seeds={seeds!r} is one number; give several, such as range({max(int(seeds), 1)})")
    seeds = list(seeds)
    if not seeds:
        raise ValueError("seeds is empty; give at least one number, such as range(3)")
    for seed in seeds:
        check_seed(seed)
    seeds = [int(seed) for seed in seeds]
    paths = [run_of(out, seed) for seed in seeds]
    train_runs(world, horizon, list(zip(seeds, paths, strict=True)), resume, progress, **settings)
    learned = [load(path) for path in paths]
    for estimator in learned:
        estimator.world = world  # also where a run cannot hold it
    return learned


def run_of(out: str | Path, seed: int) -> Path:
    return Path(out) / f"seed-{seed}"


def train_runs(
    world: World,
    horizon: int,
    runs: Sequence[tuple[int, Path]],
    resume: bool = False,
    progress: bool = True,
    **settings: Any,
) -> list[float]:
    """A training for each pair of a seed and a directory; gives the seconds that each took."""
    for _, path in runs:
        refuse_existing(RunDirectory(path), resume)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    context, workers = get_context("spawn"), max(min(len(runs), len(cores)), 1)
    free = context.Queue()
    for core in cores:
        free.put(core)
    one = partial(_train, world, horizon, resume, settings)
    try:
        with (
            tempfile.TemporaryDirectory() as compiled,
            ProcessPoolExecutor(workers, context, initializer=_settle, initargs=(free, compiled)) as pool,
        ):
            return list(tqdm(pool.map(one, runs), total=len(runs), unit="seed", disable=not progress))
    except BrokenProcessPool:
        raise ChildProcessError(
            "a training was ended from outside, or could not begin; go on with resume (--resume)"
        ) from None


def _settle(free: Any, compiled: str) -> None:
    """On a core of its own, and without reserving a whole GPU."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {free.get()})
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", compiled)


def _train(world: World, horizon: int, resume: bool, settings: dict[str, Any], run: tuple[int, Path]) -> float:
    begin = time.perf_counter()
    train(world, horizon, run[0], run[1], resume, progress=False, **settings)
    return time.perf_counter() - begin
