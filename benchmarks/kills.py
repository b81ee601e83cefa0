"""Trainings that are killed with SIGKILL at random moments, resumed, and compared with one that was
left alone.

    python benchmarks/kills.py --kills 30

A training is killed and resumed until it ends; then another one of the same seed begins, until
there were enough kills. Every file of every finished run directory, that is parameters, optimiser,
random state, metrics and description, must equal that of the training that was left alone, byte for
byte.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax  # once, before the trainings are forked; no device is started here

import empowerment as emp
from empowerment.variational import training


def learn(directory: Path, out: Path, updates: int) -> None:
    jax.config.update("jax_disable_most_optimizations", True)  # to compile quickly, and only once
    jax.config.update("jax_compilation_cache_dir", str(directory / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    training.CHUNK = 2  # many checkpoints
    world = emp.make("tree", depth=3)
    settings = {
        "updates": updates,
        "batch": 16,
        "hidden": 12,
        "features": 10,
        "layers": 2,
        "ema": 0.0,
        "optimiser": "adam",
        "progress": False,
    }
    emp.train(world, 2, seed=5, out=out, resume=True, **settings)


def begin(directory: Path, out: Path, updates: int) -> int:
    """A training in a process of its own."""
    process = os.fork()
    if process:
        return process
    try:
        learn(directory, out, updates)
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def ended(process: int, moment: Callable[[], bool] = lambda: False) -> bool:
    """Whether it ended by itself before the moment came; it is killed if not."""
    while not moment():
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            if status:
                raise SystemExit("a training failed; its sentence is above")
            return True
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


def random_moment(rng: random.Random, out: Path, starting: float, last: int) -> Callable[[], bool]:
    """A quarter fall while it starts, the others shortly after one of the next lines of its
    metrics, of which there are `last` in all."""
    if rng.random() < 0.25:
        until = time.monotonic() + rng.uniform(0, starting)
        return lambda: time.monotonic() > until
    wanted, delay = (
        lines(out) + rng.randint(1, max(min(10, last - lines(out)), 1)),
        rng.uniform(0, 0.02),
    )
    return lambda: lines(out) >= wanted and time.sleep(delay) is None


def lines(out: Path) -> int:
    path = out / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def content(out: Path) -> dict[str, bytes]:
    files = (path for path in out.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        ended(begin(directory, directory / "first", args.updates))  # compiles
        start = time.monotonic()
        ended(begin(directory, directory / "whole", args.updates))
        starting, whole = time.monotonic() - start, content(directory / "whole")
        kills, runs, left = 0, 0, 0
        while kills < args.kills:
            out, runs = directory / f"run{runs}", runs + 1
            while kills < args.kills and not ended(
                begin(directory, out, args.updates),
                random_moment(rng, out, starting, lines(directory / "whole")),
            ):
                kills += 1
                left += bool(list(out.rglob(".*.partial")))
            ended(begin(directory, out, args.updates))
            different = [file for file, data in whole.items() if content(out).get(file) != data]
            if different or set(content(out)) != set(whole):
                raise SystemExit(
                    f"run {runs} differs after {kills} kills: {different or sorted(content(out))}"
                )
            print(
                f"{kills} kills, {runs} runs: every file is the same", file=sys.stderr, flush=True
            )
    print(
        json.dumps(
            {
                "kills": kills,
                "runs": runs,
                "files": sorted(whole),
                "killed_while_writing": left,
                "equal": True,
            }
        )
    )


if __name__ == "__main__":
    main()
