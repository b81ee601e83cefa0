"""Learning by acting only against gradients through a model (appendix B.2): accuracy, samples and
seconds.

    python benchmarks/methods.py --out results/model-based [--seeds 3]

Worlds: the linear point mass, whose empowerment has a closed form, and the pendulum, whose
reference is its linearisation. After every chunk of updates the bound is measured in the true
world, at all shown states. Seconds are of the processor, without compiling and measuring; ratios
within a run are what counts.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np

import empowerment as emp
from empowerment.model_based.linearised import linearised
from empowerment.variational.config import configure
from empowerment.variational.estimator import Estimator
from empowerment.variational.training import _updates, prepare

METHODS = {
    "by acting only": {},
    "through the world": {"method": "reparameterised"},
    "through a learned model": {"method": "learned-model"},
}
CHUNK = 50
SETTINGS = {"updates": 600, "batch": 512, "features": 48, "hidden": 48, "optimiser": "adam"}
GOOD = 0.97


def measure(world, truth: float, horizon: int, seed: int, method: dict) -> dict:
    begin = time.process_time()
    config = configure(horizon, SETTINGS | method)
    run = prepare(world, config, seed)
    modelling = time.process_time() - begin
    carry = run.init(seed)
    chunk = jax.jit(partial(_updates, run), static_argnums=1).lower(carry, CHUNK).compile()
    seconds, curve = 0.0, []
    for done in range(CHUNK, config.updates + 1, CHUNK):
        begin = time.process_time()
        carry, _ = jax.block_until_ready(chunk(carry))
        seconds += time.process_time() - begin
        bound = Estimator(carry.learner.average, config, world).bound(samples=1000, seed=seed)
        curve.append((done * config.batch, seconds, float(bound.nats.mean() / truth)))
    reached = next(
        ((windows, after) for windows, after, share in curve if share >= GOOD), (None, None)
    )
    held_out = getattr(getattr(run.collector, "model", None), "held_out", None)
    return {
        "share": curve[-1][2],
        "windows_to_good": reached[0],
        "seconds_to_good": reached[1],
        "seconds": seconds,
        "modelling_seconds": modelling if held_out else 0.0,
        "held_out": None if held_out is None else held_out._asdict(),
        "curve": curve,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    worlds = {
        "point-mass": lambda world: emp.exact(world, 3),
        "pendulum": lambda world: linearised(world, 3),
    }
    for name, truth in worlds.items():
        world = emp.make(name)
        value = float(np.mean(truth(world).nats))
        for seed in range(args.seeds):
            for label, method in METHODS.items():
                row = {"world": name, "truth": value, "method": label, "seed": seed}
                rows.append(row | measure(world, value, 3, seed, method))
                print({k: v for k, v in rows[-1].items() if k != "curve"}, flush=True)
                (args.out / "methods.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
