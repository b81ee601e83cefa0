"""Importance sampling (appendix B.1) against the truth: error and time as S and J grow.

    python benchmarks/importance.py --out results/model-based

Two channels: places of two-rooms with slip 0.2 and K = 3, whose truth is `emp.exact`, and a
Gaussian channel under a power constraint, whose truth is ln(1 + P) / 2. Each point is the root mean
square error over places and seeds; times are processor seconds, since others may use the machine.
Combinations of more than `MOST` densities a step are left out.
"""

import argparse
import json
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import empowerment as emp
from empowerment.model_based.importance import Normal, importance, sampled_rows
from empowerment.worlds.world import take

SEQUENCES = (10, 30, 100, 300, 1000, 3000)
DRAWS = (1, 10, 100)
MOST = 2**25
PLACES = 4
POWER = 4.0


def grid_cases():
    world = emp.make("two-rooms", slip=0.2)
    chosen = np.random.default_rng(0).choice(len(world.states().agent), PLACES, replace=False)
    truth = emp.exact(world, 3).nats[chosen]
    states = take(world.states(), chosen)

    def case(size: int, seed: int, place: int):
        return sampled_rows(world, take(states, place), 3, size, np.random.default_rng(seed)), {}

    return "two-rooms, slip 0.2, K = 3", truth, case, False


def gaussian_cases():
    def case(size: int, seed: int, place: int):
        x = 1.5 * np.sqrt(POWER) * np.random.default_rng(seed).standard_normal((size, 1))
        return Normal(x, np.ones_like(x)), {"cost": x[:, 0] ** 2, "budget": POWER}

    return "Gaussian channel, P = 4", np.array([0.5 * np.log(1 + POWER)]), case, True


def measure(truth, case, quadratic: bool, seeds: int) -> list[dict]:
    rows = []
    for draws in DRAWS:
        for size in SEQUENCES:
            if quadratic and draws * size**2 > MOST:
                continue
            errors, adapted, seconds, effective, above = [], [], [], [], 0
            for seed in range(seeds):
                for place, value in enumerate(truth):
                    model, settings = case(size, 1000 * seed + place, place)
                    begin = time.process_time()
                    estimate = importance(model, draws, seed=seed, **settings)
                    seconds.append(time.process_time() - begin)
                    errors.append(estimate.nats - value)
                    adapted.append(estimate.adapted - value)
                    effective.append(estimate.effective)
                    above += estimate.nats > value + 3 * estimate.error
            rows.append(
                {
                    "S": size,
                    "J": draws,
                    "rms": float(np.sqrt(np.mean(np.square(errors)))),
                    "bias": float(np.mean(errors)),
                    "adapted_bias": float(np.mean(adapted)),
                    "seconds": float(np.median(seconds)),
                    "effective": float(np.mean(effective)),
                    "above": int(above),
                    "estimates": len(errors),
                }
            )
            print(rows[-1], flush=True)
    return rows


def draw(results: dict[str, list[dict]], path: Path) -> None:
    figure, axes = plt.subplots(3, len(results), figsize=(9, 9), layout="constrained", sharex=True)
    for column, (name, rows) in zip(axes.T, results.items(), strict=True):
        for draws, colour in zip(DRAWS, ("C0", "C1", "C2"), strict=True):
            own = [row for row in rows if row["J"] == draws]
            sizes = [row["S"] for row in own]
            column[0].loglog(
                sizes, [row["rms"] for row in own], "o-", color=colour, label=f"J = {draws}"
            )
            column[1].semilogx(
                sizes,
                [row["adapted_bias"] for row in own],
                "s--",
                color=colour,
                label=f"J = {draws}",
            )
            column[2].loglog(
                sizes, [row["seconds"] for row in own], "o-", color=colour, label=f"J = {draws}"
            )
        column[0].set(title=name, ylabel="RMS error, fresh ends (nats)")
        column[1].set(ylabel="bias, ends adapted to (nats)")
        column[1].axhline(0, color="0.6", linewidth=0.8)
        column[2].set(ylabel="processor seconds", xlabel="sequences S")
        column[0].legend()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for cases in (grid_cases, gaussian_cases):
        name, *what = cases()
        results[name] = measure(*what, args.seeds)
    (args.out / "importance.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(results, args.out / "importance.png")


if __name__ == "__main__":
    main()
