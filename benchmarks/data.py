"""Empowerment from logged transitions: is it right, and does the 95 % interval hold what it
promises?

    python benchmarks/data.py --out results/data

Agents act at random in FrozenLake 8x8 (from its start) and in two rooms where one move in ten is
random (from anywhere), and `emp.from_data` sees what happened and nothing else. Its values are
compared with exact ones at the states where each action was tried 50 times: R², how often the
interval holds the exact value, and how wide it is (over the states that the fewest transitions tell
enough of, so that the widths are of the same states).
"""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import empowerment as emp
from empowerment.figures.workshop import provenance
from empowerment.worlds.world import World, leaves, take

COPIES, EPISODE = 100, 200
LEAST = 50
"""Tries of each action from which on a state counts."""


def worlds() -> dict[str, tuple[World, bool]]:
    """The worlds, and whether episodes begin anywhere."""
    lake = emp.from_gymnasium(gymnasium.make("FrozenLake-v1", map_name="8x8"))
    return {
        "FrozenLake 8x8": (lake, False),
        "two-rooms, slip 0.1": (emp.make("two-rooms", slip=0.1), True),
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--horizons", type=int, nargs="*", default=[1, 2, 3])
    options.add_argument("--numbers", type=int, nargs="*", default=[10**5, 300_000, 10**6])
    options.add_argument("--out", type=Path, default=Path("out/data"))
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, (world, anywhere) in worlds().items():
        log, first = logged(world, max(args.numbers), anywhere), None
        for number in sorted(args.numbers):
            data = emp.from_data(*[x[:number] for x in log], unseen="drop")
            first = known(data, world)[2] if first is None else first
            for horizon in args.horizons:
                rows.append({"world": name, "n": number, **measured(data, world, horizon, first)})
                print(rows[-1], flush=True)
    with (args.out / "data.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    (args.out / "data.json").write_text(json.dumps(provenance(), indent=1) + "\n")
    draw(rows, args.out / "data.png")


def logged(world: World, number: int, anywhere: bool) -> tuple[np.ndarray, ...]:
    """x, a, x_next and terminated of agents that act at random."""
    rng, found = np.random.default_rng(0), []
    now = begin(world, anywhere, rng)
    for _ in range(-(-number // COPIES)):
        action = world.draw_actions((COPIES,), rng)
        after = world.step(now, action, world.draw_outcome(now, action, rng))
        ended = np.asarray(world.terminal(after))
        found.append((world.observe(now), action, world.observe(after), ended))
        over = ended | (rng.random(COPIES) < 1 / EPISODE)
        now = merged(over, begin(world, anywhere, rng), after)
    return tuple(np.concatenate(x)[:number] for x in zip(*found, strict=True))


def begin(world: World, anywhere: bool, rng: np.random.Generator) -> Any:
    """A start for each copy."""
    if anywhere:
        return world.scatter(COPIES, rng)
    return take(np.asarray(world.start)[None], np.zeros(COPIES, int))


def merged(over: np.ndarray, new: Any, old: Any) -> Any:
    """The new states where episodes are over, the old ones elsewhere."""
    if isinstance(old, np.ndarray):
        return np.where(over, new, old)
    parts = zip(leaves(new), leaves(old), strict=True)
    return type(old)(*(np.where(over.reshape(-1, *[1] * (np.ndim(o) - 1)), n, o) for n, o in parts))


def known(data: Any, world: World) -> tuple[Any, np.ndarray, np.ndarray]:
    """States in which an episode continues, their numbers in the data, and which of them were met
    often enough."""
    states = world.states()
    states = take(states, ~np.asarray(world.terminal(states)))
    numbers = data.index(world.observe(states))
    return states, numbers, (numbers >= 0) & ~data.few(LEAST)[np.maximum(numbers, 0)]


def measured(data: Any, world: World, horizon: int, first: np.ndarray) -> dict[str, Any]:
    """Agreement with exact values at the states that were met often enough; the width at those of
    them that were so at `first`."""
    states, numbers, often = known(data, world)
    truth = emp.exact(world, horizon, take(states, often))
    found = emp.exact(data, horizon, numbers[often])
    cover = (found.lower <= truth.nats + 1e-9) & (truth.nats - 1e-9 <= found.upper)
    errors = found.nats - truth.nats
    return {
        "horizon": horizon,
        "states": int(often.sum()),
        "of": len(often),
        "r2": round(
            1 - float((errors**2).sum() / ((truth.nats - truth.nats.mean()) ** 2).sum()), 4
        ),
        "cover": round(float(cover.mean()), 4),
        "width": round(float(np.mean((found.upper - found.lower)[first[often]])), 5),
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    for style, name in zip(("o-", "s--"), dict.fromkeys(row["world"] for row in rows), strict=True):
        for horizon in dict.fromkeys(row["horizon"] for row in rows):
            own = [r for r in rows if r["world"] == name and r["horizon"] == horizon]
            n = [row["n"] for row in own]
            colour = f"C{horizon - 1}"
            left.plot(
                n, [r["width"] for r in own], style, color=colour, label=f"{name}, K = {horizon}"
            )
            right.plot(n, [r["cover"] for r in own], style, color=colour)
    n = np.array(sorted({row["n"] for row in rows}))
    for scale in (0.03, 0.5):
        left.plot(n, scale * np.sqrt(n[0] / n), color="0.4", label="proportional to 1/√n")
    left.set(xscale="log", yscale="log", xlabel="transitions n", ylabel="width (nats)")
    left.set_title("mean width of the 95 % interval")
    lines = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4, fontsize=8)
    right.axhline(0.95, color="0.4")
    right.set(xscale="log", ylim=(0.8, 1.01), xlabel="transitions n", ylabel="share of states")
    right.set_title("states whose interval holds the exact value")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
