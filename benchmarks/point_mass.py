"""Learned empowerment of the point mass against its closed form, and of bounded forces against a
fine discretisation.

python benchmarks/point_mass.py --out results/continuous/point-mass.json
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
from scipy.stats import norm

import empowerment as emp
from empowerment.figures.workshop import provenance
from empowerment.gaussian import linear_empowerment
from empowerment.worlds.world import World

CASES = [
    {"noise": noise, "horizon": horizon, "beta": beta, "dimensions": dimensions}
    for noise, horizon, beta, dimensions in [
        *itertools.product((0.1, 0.3, 1.0), (1, 3), (1.0,), (1,)),
        (0.3, 2, 1.0, 2),
        (0.3, 3, 1.0, 2),
        (0.3, 2, 0.8, 1),
        (0.3, 3, 0.5, 1),
    ]
]


def bounded_capacity(noise: float, inputs: int = 101, outputs: int = 2001) -> float:
    """Capacity of one force between -1 and 1 with this noise, by certified capacity of a fine
    discretisation."""
    forces = np.linspace(-1, 1, inputs)
    edges = np.linspace(-1 - 6 * noise, 1 + 6 * noise, outputs)
    levels = norm.cdf((edges[None] - forces[:, None]) / noise)
    rows = np.diff(np.concatenate([np.zeros((inputs, 1)), levels, np.ones((inputs, 1))], axis=1))
    return float(emp.capacity(rows, tolerance=1e-4).nats)


def learned(
    world: World, horizon: int, beta: float, seed: int, options: argparse.Namespace
) -> np.ndarray:
    size = {"updates": options.updates, "batch": options.batch}
    return emp.train(world, horizon, seed, beta=beta, progress=False, **size).landscape().nats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--forces", nargs="*", choices=("power", "bounded"), default=["power", "bounded"]
    )
    parser.add_argument("--noises", type=float, nargs="*", default=[0.1, 0.3, 1.0])
    parser.add_argument("--horizons", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=512)
    options = parser.parse_args()
    rows = []
    chosen = [
        case
        for case in CASES
        if case["noise"] in options.noises and case["horizon"] in options.horizons
    ]
    for case, seed in itertools.product(
        chosen if "power" in options.forces else [], range(options.seeds)
    ):
        world = emp.make("point-mass", noise=case["noise"], dimensions=case["dimensions"])
        truth = linear_empowerment(*world.matrices(), case["horizon"], 1.0, case["beta"])
        nats = learned(world, case["horizon"], case["beta"], seed, options)
        rows.append({**case, "bound": "power", "seed": seed, **_fit(nats, truth)})
        print(rows[-1], flush=True)
    for noise, seed in itertools.product(
        options.noises if "bounded" in options.forces else (), range(options.seeds)
    ):
        nats = learned(emp.make("point-mass", noise=noise, power=None), 1, 1.0, seed, options)
        rows.append(
            {
                "noise": noise,
                "horizon": 1,
                "bound": "±1",
                "seed": seed,
                **_fit(nats, bounded_capacity(noise)),
            }
        )
        print(rows[-1], flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        size = {"updates": options.updates, "batch": options.batch}
        options.out.write_text(json.dumps({**provenance(), **size, "rows": rows}, indent=1))


def _fit(nats: np.ndarray, truth: float) -> dict[str, float]:
    worst = float(np.abs(nats / truth - 1).max())
    return {"truth": truth, "learned": float(nats.mean()), "largest_relative_error": worst}


if __name__ == "__main__":
    main()
