"""What the reward wrapper costs: time of a vector environment of 64 MiniGrid copies with and
without it.

    python benchmarks/reward.py

Both sides take the same actions in the same grids, in turns of a few steps, so that whatever else
the machine does falls on both. Time is the processor's, over all threads, which other programs
change little, and the clock's beside it. The estimator is as large as the default one; what it was
trained on does not matter for its cost.
"""

import argparse
import json
import time
from pathlib import Path

import gymnasium
import jax
import minigrid  # noqa: F401  (registers its environments)
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from minigrid.wrappers import FullyObsWrapper, ImgObsWrapper, RGBImgObsWrapper

import empowerment as emp
from empowerment.variational.config import Config
from empowerment.variational.learner import Learner
from empowerment.variational.sequence import Categorical

VIEWS = {
    "cells": lambda env: ImgObsWrapper(FullyObsWrapper(env)),
    "pixels": lambda env: ImgObsWrapper(RGBImgObsWrapper(env, tile_size=8)),
}
TURN = 5  # steps of one side before it is the other's turn


def vector(name: str, view, copies: int) -> SyncVectorEnv:
    makers = [lambda: view(gymnasium.make(name))] * copies
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


def estimator(env: SyncVectorEnv) -> emp.Estimator:
    """Untrained, of default size."""
    frames, _ = env.reset(seed=0)
    learner = Learner(Config(), Categorical(int(env.single_action_space.n)))
    return emp.Estimator(
        learner.init(jax.numpy.asarray(frames), key=jax.random.key(0)).model, learner.config
    )


def measure(name: str, view, copies: int, steps: int) -> dict[str, float]:
    plain, inner = vector(name, view, copies), vector(name, view, copies)
    est = estimator(inner)
    wrapped = emp.EmpowermentVectorReward(inner, est, mode="info")
    actions = np.random.default_rng(0).integers(plain.single_action_space.n, size=(steps, copies))
    sides = {"plain": plain, "wrapped": wrapped}
    spent = {side: np.zeros(2) for side in sides}
    for side in sides.values():
        frames, _ = side.reset(seed=1)
    for count in range(1, copies + 1):
        est.empowerment(frames[:count])  # compiles every size
    for first in range(0, steps, TURN):
        for which, side in sides.items():
            start = np.array([time.process_time(), time.perf_counter()])
            for row in actions[first : first + TURN]:
                side.step(row)
            spent[which] += [time.process_time(), time.perf_counter()] - start
    (plain_cpu, plain_clock), (cpu, clock) = (1000 * spent[which] / steps for which in sides)
    return {
        "plain_cpu_ms": plain_cpu,
        "wrapped_cpu_ms": cpu,
        "cost": cpu / plain_cpu - 1,
        "cost_by_the_clock": clock / plain_clock - 1,
        "new_pictures": len(wrapped._nats._known) / (steps * copies),
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--envs", nargs="*", default=["MiniGrid-Empty-8x8-v0", "MiniGrid-DoorKey-8x8-v0"]
    )
    options.add_argument("--views", nargs="*", default=list(VIEWS), choices=VIEWS)
    options.add_argument("--copies", type=int, default=64)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--out", type=Path, help="file for the numbers, as JSON")
    args = options.parse_args()
    rows = {}
    for name in args.envs:
        for kind in args.views:
            row = rows[f"{name}, {kind}"] = measure(name, VIEWS[kind], args.copies, args.steps)
            print(
                f"{name:26} {kind:7} {row['plain_cpu_ms']:6.1f} ms a step, with the wrapper "
                f"{row['wrapped_cpu_ms']:6.1f}: {row['cost']:+.1%} (by the clock "
                f"{row['cost_by_the_clock']:+.1%}), "
                f"{row['new_pictures']:.0%} of the pictures new",
                flush=True,
            )
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
