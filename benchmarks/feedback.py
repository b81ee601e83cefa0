"""Learned empowerment with feedback beside exact values, for several seeds.

    python benchmarks/feedback.py --out results/feedback

Default settings. In two rooms where one move in ten is random: horizons 5 and 20, no end with a
discount of 0.95, and horizon 5 where the world is known only as a Gymnasium environment. Then
greedy agents on the windy bridge, on exact and on learned values, without and with feedback: how
many of 100 cross it, and how many fall.
"""

import argparse
import csv
import json
import math
import time
from pathlib import Path
from typing import Any

import empowerment as emp
from empowerment.behaviour import exact_value, learned_value
from empowerment.figures.feedback import crossings
from empowerment.figures.workshop import provenance
from empowerment.worlds.world import World

SLIP, BRIDGE, OPAQUE = 0.1, 5, "opaque-two-rooms-slip-0.1"
CASES = (
    ("settable", 5, 1.0),
    ("settable", 20, 1.0),
    ("settable", math.inf, 0.95),
    ("opaque", 5, 1.0),
)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    options.add_argument("--out", type=Path, default=Path("out/feedback"))
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rooms = emp.make("two-rooms", slip=SLIP)
    rows = [row for seed in args.seeds for case in CASES for row in [fit(rooms, seed, *case)]]
    write(args.out / "learned.csv", rows)
    bridge = emp.make("windy-bridge")
    played = []
    for feedback in (False, True):
        played.append(cross(bridge, "exact", feedback, "", exact_value(bridge, BRIDGE, feedback)))
        for seed in args.seeds:
            est = emp.train(bridge, BRIDGE, seed=seed, feedback=feedback, progress=False)
            played.append(cross(bridge, "learned", feedback, seed, learned_value(bridge, est)))
    write(args.out / "bridge.csv", played)
    (args.out / "learned.json").write_text(json.dumps(provenance(), indent=1) + "\n")


def fit(rooms: World, seed: int, way: str, horizon: Any, discount: float) -> dict[str, Any]:
    """One training, compared with the exact values of all places."""
    closed = {"feedback": True, "discount": discount}
    world = rooms
    if way == "opaque":
        world = next(t for t in emp.bench.tasks() if t.name == OPAQUE).world()
    began = time.perf_counter()
    est = emp.train(world, horizon, seed=seed, progress=False, **closed)
    minutes = (time.perf_counter() - began) / 60
    found = emp.compare(est.landscape(rooms), emp.exact(rooms, horizon, **closed))
    row = {"way": way, "horizon": horizon, "discount": discount, "seed": seed}
    row |= {"r2": round(found.r2, 5), "bias": round(found.bias, 4), "minutes": round(minutes, 2)}
    print(row, flush=True)
    return row


def cross(world: World, how: str, feedback: bool, seed: Any, value: Any) -> dict[str, Any]:
    """What 100 greedy agents do."""
    crossed, fallen = crossings(world, value)
    row = {"values": how, "feedback": feedback, "seed": seed, "crossed": crossed, "fallen": fallen}
    print(row, flush=True)
    return row


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
