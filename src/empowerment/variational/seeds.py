"""Trainings that differ only by their seeds, side by side: one process on one core each, the rest
waits its turn.

A training keeps little more than one core busy, so that several of them next to each other use a
machine better than one after the other. Each is exactly what it would be alone on that core; what
one has compiled the others take from it.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from numbers import Integral
from pathlib import Path
from threading import Thread
from typing import Any

from tqdm import tqdm

from ..worlds.world import World, check_world
from .checkpoint import RunDirectory
from .estimator import Estimator
from .keys import check_seed
from .training import load, refuse_existing, train


def train_seeds(
    world: World,
    horizon: int | float = 5,
    seeds: Iterable[int] = range(3),
    out: str | Path = "runs",
    resume: bool = False,
    progress: bool = True,
    **settings: Any,
) -> list[Estimator]:
    """Learn empowerment once for each seed, side by side on the cores of this machine; see
    `emp.train`.

    `out` keeps a run for each in `out/seed-0`, `out/seed-1` and so on. The world has to be one that
    can be pickled, and a script calls this under `if __name__ == "__main__":`, since each process
    reads the script first.
    """
    check_world(world)
    if not world.settable:
        raise ValueError(
            f"environment {world.name!r} runs in this process only; call emp.train once for each "
            "seed"
        )
    if isinstance(seeds, Integral):
        raise ValueError(
            f"seeds={seeds!r} is one number; give several, such as range({max(int(seeds), 1)})"
        )
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
    horizon: int | float,
    runs: Sequence[tuple[int, Path]],
    resume: bool = False,
    progress: bool = True,
    **settings: Any,
) -> list[float]:
    """A training for each pair of a seed and a directory; gives the seconds that each took."""
    for _, path in runs:
        refuse_existing(RunDirectory(path), resume)
    one = partial(_train, world, horizon, resume, settings)
    with tqdm(total=len(runs), unit="seed", disable=not progress) as bar:
        return side_by_side(one, runs, lambda: bar.update())


def cores() -> list[int]:
    """Numbers of the processor cores that this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def side_by_side(
    work: Callable[[Any], Any],
    jobs: Sequence[Any],
    done: Callable[[], object],
    workers: int | None = None,
) -> list[Any]:
    """`work` of every job, each in a process on a core of its own, as many at a time as there are
    cores."""
    context, count = get_context("spawn"), max(min(len(jobs), workers or len(cores())), 1)
    free, results = context.Queue(), []
    for i in range(count):
        free.put(cores()[i % len(cores())])
    try:
        with ProcessPoolExecutor(count, context, initializer=_settle, initargs=(free,)) as pool:
            for result in pool.map(work, jobs):
                results.append(result)
                done()
    except BrokenProcessPool:
        raise ChildProcessError(
            "a process was ended from outside, or could not begin; resume with the same command "
            "(train: --resume)"
        ) from None
    return results


def _settle(free: Any) -> None:
    """On a core of its own, without reserving a whole GPU; it ends with the process that started
    it."""
    Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {free.get()})


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _train(
    world: World,
    horizon: int | float,
    resume: bool,
    settings: dict[str, Any],
    run: tuple[int, Path],
) -> float:
    begin = time.perf_counter()
    train(world, horizon, run[0], run[1], resume, progress=False, **settings)
    return time.perf_counter() - begin
