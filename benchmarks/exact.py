"""Exact empowerment against other ways of computing it, side by side in one run.

    python benchmarks/exact.py --out results/exact [--quick]

Times are of the processor, all threads added up, so that other programs on the machine do not
count. Ratios are what matters: both sides ran in the same minutes on the same machine.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import empowerment as emp
from empowerment.channel import channels
from empowerment.reach import explore
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.world import World, identify, take


def open_map(side: int, holes: float = 0.0) -> GridWorld:
    """An open room of side x side cells, walls included; `holes` is the share of inner cells that
    are walls."""
    cells = np.full((side, side), "#")
    inner = np.where(np.random.default_rng(0).random((side - 2, side - 2)) < holes, "#", ".")
    cells[1:-1, 1:-1] = inner
    cells[1, 1] = "a"
    return GridWorld(Map(f"open-{side}", cells))


def timed(function: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The best processor time of several runs, and the last result."""
    best, result = np.inf, None
    for _ in range(repeats):
        begin = time.process_time()
        result = function()
        best = min(best, time.process_time() - begin)
    return best, result


def python_counts(world: World, horizon: int) -> np.ndarray:
    """The straightforward search: a table of successors in lists, one Python set for each state."""
    states, actions = world.states(), np.arange(len(world.actions))
    numbers = {key: i for i, key in enumerate(identify(states).tolist())}
    columns = [
        [
            numbers[key]
            for key in identify(
                world.step(states, np.full(len(states.agent), a), np.int64(0))
            ).tolist()
        ]
        for a in actions
    ]
    table = list(zip(*columns, strict=True))
    counts = []
    for start in range(len(table)):
        reached = {start}
        for _ in range(horizon):
            reached = {after for state in reached for after in table[state]}
        counts.append(len(reached))
    return np.array(counts)


def noisy(budget: float) -> list[dict]:
    """(a) slippery two-rooms, whole map at gap 1e-9, against dit and against plain Blahut-Arimoto.

    Everything is included on both sides, and every time is the best of five. The others get our
    builder of merged channels, and solve state by state in random order until the time is up; their
    time is scaled to the whole map. dit stops on a small change (1e-13 bits here), which proves
    nothing.
    """
    from dit.algorithms import channel_capacity

    def dit_nats(matrix: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            return float(channel_capacity(matrix, rtol=0.0, atol=1e-13)[0]) * float(np.log(2))

    def plain_nats(matrix: np.ndarray) -> float:
        return emp.blahut_arimoto(matrix, tolerance=1e-9).nats

    rows = []
    world = emp.make("two-rooms", slip=0.2)
    for horizon in (1, 2, 3):
        ours, land = timed(lambda k=horizon: emp.exact(world, k), repeats=5)
        building, matrices = timed(
            lambda k=horizon: [c.matrix for c in channels(explore(world, world.states(), k), k)],
            repeats=5,
        )
        order = np.random.default_rng(0).permutation(len(matrices))
        row = {
            "K": horizon,
            "states": len(land),
            "exact": ours,
            "gap": float((land.upper - land.lower).max()),
        }
        for name, solve in (("dit", dit_nats), ("blahut_arimoto", plain_nats)):
            spent, errors, begin = 0.0, [], time.perf_counter()
            for i in order:
                seconds, nats = timed(partial(solve, matrices[i]), repeats=5)
                spent, errors = spent + seconds, [*errors, abs(nats - land.nats[i])]
                if time.perf_counter() - begin > budget:
                    break
            whole = building + spent * len(land) / len(errors)
            row[name] = {
                "seconds": whole,
                "states_run": len(errors),
                "worst_error": float(max(errors)),
                "ratio": whole / ours,
            }
        rows.append(row)
        print(
            f"(a) K={horizon}: exact {ours:.4f} s to {row['gap']:.1e} nats; "
            + "; ".join(
                f"{name} {row[name]['seconds']:.1f} s ({row[name]['states_run']} of {len(land)} "
                "states run, "
                f"error {row[name]['worst_error']:.0e}) = {row[name]['ratio']:.0f} x"
                for name in ("dit", "blahut_arimoto")
            ),
            flush=True,
        )
    ours = sum(row["exact"] for row in rows)
    for name in ("dit", "blahut_arimoto"):
        print(
            f"(a) K=1, 2, 3 together: {sum(row[name]['seconds'] for row in rows) / ours:.0f} x "
            f"faster than {name}"
        )
    return rows


def deterministic(quick: bool) -> list[dict]:
    """(b) K = 5 against the Python set search, everything included on both sides."""
    worlds = [open_map(200), open_map(200, holes=0.2), emp.make("two-rooms")]
    rows = []
    for label, world in zip(
        ("open 200x200", "200x200, 20 % walls", "two-rooms"), worlds, strict=True
    ):
        ours, land = timed(lambda w=world: emp.exact(w, 5), repeats=10)
        theirs, counts = timed(lambda w=world: python_counts(w, 5), repeats=1 if quick else 3)
        assert np.array_equal(np.exp(land.nats).round(), counts), label
        rows.append(
            {
                "world": label,
                "states": len(land),
                "exact": ours,
                "python": theirs,
                "ratio": theirs / ours,
            }
        )
        print(
            f"(b) {label}: exact {ours:.4f} s, Python sets {theirs:.3f} s = {theirs / ours:.1f} x",
            flush=True,
        )
    return rows


def large() -> list[dict]:
    """(c) large maps, each in a process of its own so that its peak memory is its own."""
    rows = []
    for side, horizon in ((1000, 5), (100, 100)):
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(side), str(horizon)],
            check=True,
            capture_output=True,
            text=True,
        )
        row = json.loads(done.stdout)
        rows.append(row)
        print(
            f"(c) open {side}x{side}, K={horizon}: {row['states']:,} states in "
            f"{row['seconds']:.2f} s, "
            f"peak memory {row['gib']:.2f} GiB",
            flush=True,
        )
    return rows


def one(side: int, horizon: int) -> None:
    seconds, land = timed(lambda: emp.exact(open_map(side), horizon))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        json.dumps(
            {"side": side, "K": horizon, "states": len(land), "seconds": seconds, "gib": peak}
        )
    )


def growth(quick: bool) -> list[dict]:
    """(d) time against K and D, beside the paper's O(N^K S²)."""
    rows = []
    noisy_limit = 3 if quick else 4
    for horizon in (1, 2, 3, 4, 5, 6, 8, 10, 20):
        world = open_map(20)
        rows.append(_growth_row("K", "deterministic", 20, horizon, world))
        if horizon <= noisy_limit:
            rows.append(_growth_row("K", "slip 0.2", 20, horizon, GridWorld(world.map, slip=0.2)))
    for side in (10, 20, 50, 100, 200) if quick else (10, 20, 50, 100, 200, 400):
        world = open_map(side)
        rows.append(_growth_row("D", "deterministic", side, 5, world))
        rows.append(_growth_row("D", "slip 0.2", side, 2, GridWorld(world.map, slip=0.2)))
    print("(d)  vary  world           D    K    states    seconds   N^K S^2")
    for r in rows:
        print(
            f"     {r['vary']:5} {r['world']:14}{r['D']:4} {r['K']:4} {r['states']:9,} "
            f"{r['seconds']:10.4f}"
            f"   {r['operations']:.1e}"
        )
    return rows


def _growth_row(vary: str, name: str, side: int, horizon: int, world: GridWorld) -> dict:
    emp.exact(
        world, horizon, take(world.states(), slice(0, 1))
    )  # no first-call cost in the measurement
    seconds, land = timed(lambda: emp.exact(world, horizon), repeats=3)
    operations = float(len(world.actions)) ** horizon * len(land) ** 2
    return {
        "vary": vary,
        "world": name,
        "D": side,
        "K": horizon,
        "states": len(land),
        "seconds": seconds,
        "operations": operations,
    }


def plot_growth(rows: list[dict], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for ax, vary, fixed in zip(
        figure.subplots(1, 2), ("K", "D"), ("D = 20", "K = 5; slip: K = 2"), strict=True
    ):
        for name, marker in (("deterministic", "o"), ("slip 0.2", "s")):
            chosen = [r for r in rows if r["vary"] == vary and r["world"] == name]
            x = np.array([r[vary] for r in chosen])
            ax.plot(x, [r["seconds"] for r in chosen], marker=marker, label=f"exact, {name}")
            if name == "deterministic":
                cost = np.array([r["operations"] for r in chosen])
                scaled = cost / cost[0] * chosen[0]["seconds"]
                ax.plot(x, scaled, "k:", label="growth of $N^K S^2$ (the paper's)")
        ax.set(
            xlabel={"K": "horizon K", "D": "side of the map D"}[vary],
            ylabel="seconds, whole map",
            title=fixed,
        )
        ax.set(xscale="log", yscale="log", ylim=(3e-4, 1e4))
        ax.legend(fontsize=8)
    for kind in ("png", "pdf"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results/exact"), help="directory for the numbers and plot"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a few seconds for each rival instead of minutes"
    )
    parser.add_argument("--one", type=int, nargs=2, metavar=("SIDE", "K"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    warnings.simplefilter("ignore")  # of the other packages
    results = {
        "deterministic": deterministic(options.quick),
        "noisy": noisy(budget=4.0 if options.quick else 120.0),
        "large": large(),
        "growth": growth(options.quick),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "exact.json").write_text(json.dumps(results, indent=1))
    plot_growth(results["growth"], options.out / "exact-growth")


if __name__ == "__main__":
    main()
