"""MiniGrid DoorKey from its own pixels: the learned landscape against the exact one, for several
seeds.

    python benchmarks/door_key.py --out results/ecosystem

The environment is MiniGrid's, seen through RGBImgObsWrapper. The grid (of seed 0) is the same in
every run. Compared are the places of the landscape (key and door as at the start) and all states
within reach: key in hand or anywhere on the floor, door locked, closed or open.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import gymnasium
import minigrid  # noqa: F401  (registers its environments)
import numpy as np
from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

import empowerment as emp
from empowerment.reach import closure

HEADER = (
    "| seed | states | Pearson | R² | bias (nats) | largest error (nats) | minutes |\n"
    "|---|---|---|---|---|---|---|"
)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--env", default="MiniGrid-DoorKey-5x5-v0")
    options.add_argument("--tile", type=int, default=4, help="pixels along a cell")
    options.add_argument("--horizon", type=int, default=3)
    options.add_argument("--updates", type=int, default=3000)
    options.add_argument("--batch", type=int, default=2048)
    options.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    options.add_argument("--out", type=Path, default=Path("out/door-key"))
    args = options.parse_args()
    env = ImgObsWrapper(RGBImgObsWrapper(gymnasium.make(args.env), tile_size=args.tile))
    env.reset(seed=0)
    world = emp.from_gymnasium(env)
    everything = closure(world, world.states(), 10**6).states
    scenes = {"places": world.states(), "all": everything[~np.asarray(world.terminal(everything))]}
    exact = {name: emp.exact(world, args.horizon, states) for name, states in scenes.items()}
    args.out.mkdir(parents=True, exist_ok=True)
    print(HEADER)
    rows = []
    for seed in args.seeds:
        start = time.perf_counter()
        est = emp.train(
            world, args.horizon, seed=seed, updates=args.updates, batch=args.batch, progress=False
        )
        minutes = (time.perf_counter() - start) / 60
        for name, states in scenes.items():
            fit = emp.compare(est.landscape(states=states), exact[name])
            rows.append(
                {
                    "seed": seed,
                    "states": name,
                    "count": len(states),
                    "minutes": minutes,
                    **asdict(fit),
                }
            )
            numbers = (
                f"{fit.pearson:.4f} | {fit.r2:.4f} | {fit.bias:+.4f} | {fit.max_error:.4f} | "
                f"{minutes:.1f}"
            )
            print(f"| {seed} | {name} ({len(states)}) | {numbers} |", flush=True)
        settings = {
            name: getattr(args, name) for name in ("env", "tile", "horizon", "updates", "batch")
        }
        (args.out / "door-key.json").write_text(
            json.dumps({**settings, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
