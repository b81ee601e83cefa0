"""An hour of training, watched: memory, compilations, file handles, threads and processes.

    python benchmarks/endurance.py --minutes 60 --out results/robustness

After each chunk of updates one line of what the operating system says of this process. The slope of
the memory is fitted to the second half, when every cache is warm, and compared with its scatter.
"""

import argparse
import contextlib
import json
import os
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

import empowerment as emp

MAP = "########\n#..#...#\n#a.#.#.#\n#......#\n########\n"
EVERY = 5.0  # seconds between samples
PAGE = os.sysconf("SC_PAGE_SIZE")


class Enough(Exception):
    """The time is up."""


class Watch:
    """A tracker that looks at its own process."""

    def __init__(self, minutes: float):
        self._minutes, self.rows, self.compilations, self.updates = minutes, [], 0, 0
        jax.monitoring.register_event_duration_secs_listener(self._compiled)

    def _compiled(self, event: str, duration: float, **rest: object) -> None:
        self.compilations += event.endswith("backend_compile_duration")

    def start(self, facts: dict) -> None:
        self._begin = time.monotonic()

    def log(self, step: int, metrics: dict[str, float]) -> None:
        now, self.updates = time.monotonic() - self._begin, step
        if not self.rows or now - self.rows[-1]["seconds"] >= EVERY:
            self.rows.append({"seconds": round(now, 2), "updates": step, **self._process()})
        if now > 60 * self._minutes:
            raise Enough

    def finish(self) -> None:
        pass

    def _process(self) -> dict[str, float]:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return {
            "mebibytes": round(resident / 2**20, 3),
            "compilations": self.compilations,
            "handles": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
            "processes": len(children),
        }


def slope(rows: list[dict]) -> dict[str, float]:
    """MiB an hour over the second half, with the standard error of a straight line through block
    means."""
    late = rows[len(rows) // 2 :]
    blocks = np.array_split(
        np.array([[row["seconds"] / 3600, row["mebibytes"]] for row in late]), 20
    )
    x, y = np.array([block.mean(0) for block in blocks if len(block)]).T
    fit, covariance = np.polyfit(x, y, 1, cov=True)
    return {
        "slope_mebibytes_an_hour": float(fit[0]),
        "standard_error": float(covariance[0, 0] ** 0.5),
        "scatter_mebibytes": float(np.std(y)),
    }


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 1, figsize=(7, 6), sharex=True, layout="constrained")
    minutes = [row["seconds"] / 60 for row in rows]
    parts = (("mebibytes",), ("compilations",), ("handles", "threads", "processes"))
    labels = ("resident memory (MiB)", "compilations", "count")
    for axis, names, label in zip(axes, parts, labels, strict=True):
        for name in names:
            axis.plot(minutes, [row[name] for row in rows], label=name)
        axis.set_ylabel(label)
        most = max(row[name] for row in rows for name in names)
        axis.set_ylim(-0.05 * most, 1.15 * most)
        if len(names) > 1:
            axis.legend(loc="center right")
    axes[-1].set_xlabel("minutes of training")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("results/robustness"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    watch = Watch(args.minutes)
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "small.txt").write_text(MAP)
        world = emp.make(Path(directory) / "small.txt")
        settings = {"updates": 10**7, "batch": 64, "hidden": 32, "features": 32, "progress": False}
        with contextlib.suppress(Enough):
            emp.train(world, 3, out=Path(directory) / "run", trackers=[watch], **settings)
    result = {
        **slope(watch.rows),
        "updates": watch.updates,
        "first": watch.rows[0],
        "last": watch.rows[-1],
    }
    (args.out / "endurance.json").write_text(json.dumps({**result, "rows": watch.rows}, indent=1))
    draw(watch.rows, args.out / "endurance.png")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
