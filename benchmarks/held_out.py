"""Generated maps on which nothing was tuned, learned with the settings of the built-in world of
their kind.

    python benchmarks/held_out.py --out results/held-out

Learned values are compared with exact ones at every place of the agent, the rest of the world as at
the start. With lava, greedy agents also play from every place: how many are alive after 200 steps,
of those that exact values save.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

import empowerment as emp
from empowerment.behaviour import Greedy, Random, exact_value, learned_value, run_episodes
from empowerment.figures.workshop import provenance
from empowerment.worlds.generator import generate_world
from empowerment.worlds.world import World

KINDS = {
    "rooms": ("two-rooms", 5),
    "boxes": ("box-movable", 5),
    "key-door": ("key-door", 5),
    "lava-corridor": ("lava-corridor", 3),
    "lava-maze": ("lava-maze", 4),
}
"""Kinds of generated maps: the built-in world whose settings are used, and the horizon of its
figure."""
STEPS = 200


def survival(world: World, horizon: int, estimator: emp.Estimator) -> dict[str, float]:
    """Shares of agents alive at the end, of the places from which greedy play on exact values
    survives."""
    truth, starts = exact_value(world, horizon), world.states()
    saved = np.array(
        [episode.alive for episode in run_episodes(world, Greedy(world, truth), starts, STEPS)]
    )
    agents = {
        "learned": Greedy(world, learned_value(world, estimator)),
        "random": Random(world, truth),
    }
    played = {name: run_episodes(world, agent, starts, STEPS) for name, agent in agents.items()}
    alive = {
        name: np.array([episode.alive for episode in episodes]) for name, episodes in played.items()
    }
    cells = [
        episode.reachable_cells
        for episode, keep in zip(played["learned"], saved, strict=True)
        if keep
    ]
    return {
        "starts": len(saved),
        "exact_alive": float(saved.mean()),
        **{f"{name}_alive_of_those": float(which[saved].mean()) for name, which in alive.items()},
        "cells_left_median": float(np.median(cells)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/held-out"))
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--maps", type=int, nargs="*", default=[0], help="seeds of the generator")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for kind in options.kinds:
        _, horizon = KINDS[kind]
        for seed in options.maps:
            world, begin = generate_world(kind, seed), time.perf_counter()
            estimator = emp.train(world, horizon, progress=False)
            row = {
                "kind": kind,
                "map": seed,
                "horizon": horizon,
                "seconds": time.perf_counter() - begin,
            }
            row |= asdict(emp.compare(estimator.landscape(), emp.exact(world, horizon)))
            row |= survival(world, horizon, estimator) if kind.startswith("lava") else {}
            rows.append(row)
            print(json.dumps(row), flush=True)
            (options.out / "held-out.json").write_text(
                json.dumps({**provenance(), "rows": rows}, indent=1) + "\n"
            )


if __name__ == "__main__":
    main()
