"""Where figures are made: worlds, trainings and files, with the settings and the machine that gave
the numbers."""

import contextlib
import csv
import json
import os
import platform
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure as Drawing

from .. import __version__, exact, make
from ..files import write_atomically
from ..landscape import Landscape
from ..worlds.world import State, World

if TYPE_CHECKING:
    from ..behaviour import Episode
    from ..variational.estimator import Estimator

QUICK: dict[str, Any] = {"updates": 200, "batch": 512}
"""Settings of the trainings of a quick run: the figures are recognisable, the numbers are not
final."""
PACKAGES = ("numpy", "scipy", "jax", "equinox", "optax", "matplotlib")


@dataclass(frozen=True)
class Claim:
    """One statement, what counts as shown, and what was found."""

    figure: str
    claim: str
    criterion: str
    exact: float | str | None
    learned: dict[str, float] | None
    """median, min and max over seeds"""
    seeds: int
    shown: bool


@dataclass(frozen=True)
class Finding:
    """What was measured for one statement."""

    exact: float | None = None
    """with exact empowerment, where it says something"""
    learned: Sequence[float] = ()
    """one value for each seed"""


@dataclass(frozen=True)
class Statement:
    """A statement of the paper, or ours on its ground, and what counts as shown."""

    key: str
    claim: str
    criterion: str
    test: Callable[[Finding], bool]

    def claimed(self, figure: str, finding: Finding) -> Claim:
        """The claim with its outcome; what is not a number shows nothing."""
        values = [float(x) for x in finding.learned]
        numbers = [*values, *([] if finding.exact is None else [finding.exact])]
        shown = bool(numbers) and bool(np.isfinite(numbers).all()) and bool(self.test(finding))
        summary = (
            {"median": float(np.median(values)), "min": min(values), "max": max(values)}
            if values
            else None
        )
        return Claim(figure, self.claim, self.criterion, finding.exact, summary, len(values), shown)


def all_at_least(least: float) -> Callable[[Finding], bool]:
    """Every seed's value."""
    return lambda finding: min(finding.learned) >= least


def all_at_most(most: float) -> Callable[[Finding], bool]:
    """Every seed's value."""
    return lambda finding: max(finding.learned) <= most


@dataclass(frozen=True)
class Figure:
    """A figure as data. `make` measures and draws it, and gives a finding for every statement."""

    name: str
    worlds: tuple[str, ...]
    """worlds that are trained on"""
    make: Callable[["Workshop"], Mapping[str, Finding]]
    statements: tuple[Statement, ...]
    horizon: int = 5
    seeds: int = 1
    """trainings of each world, by default"""


@dataclass
class Workshop:
    """One figure being made in a directory, through the same calls as a user's."""

    figure: Figure
    out: Path
    seeds: int
    quick: bool
    progress: "Progress"
    files: list[str] = field(default_factory=list)
    seconds: dict[str, float | None] = field(default_factory=dict)
    """of each training; None where it is not known"""

    def exact(self, world: World, states: State | None = None) -> Landscape:
        return exact(world, self.figure.horizon, states)

    def trained(self, world: str) -> "list[Estimator]":
        """An estimator for each seed; finished trainings are read, interrupted ones resume, several
        side by side."""
        self._train_together(world)
        return [self.train(world, seed, make(world)) for seed in range(self.seeds)]

    def _train_together(self, world: str) -> None:
        """Train the seeds that are not finished, where there are several, so that they need only be
        read."""
        from ..variational.seeds import train_runs

        settings = QUICK if self.quick else {}
        paths = [
            self.out / "runs" / run_name(world, seed, self.quick) for seed in range(self.seeds)
        ]
        total = planned_updates(world, self.quick)
        left = [(seed, path) for seed, path in enumerate(paths) if updates_of(path) < total]
        if len(left) < 2:
            return
        with self.progress.watching(f"{self.figure.name}: {{}} {world}, {len(left)} seeds", *paths):
            seconds = train_runs(
                make(world), self.figure.horizon, left, resume=True, progress=False, **settings
            )
        for (_, path), spent in zip(left, seconds, strict=True):
            self._note(path.name, spent)

    def train(self, name: str, seed: int, world: World) -> "Estimator":
        """An estimator of a world for one seed, with the settings of this name; in this process."""
        from ..variational.training import train

        run = self.out / "runs" / run_name(name, seed, self.quick)
        doing = f"{self.figure.name}: {{}} {name}, seed {seed}"
        with self.progress.watching(doing, run), self._timed(run.name):
            settings = QUICK if self.quick else {}
            return train(
                world, self.figure.horizon, seed, run, resume=True, progress=False, **settings
            )

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Seconds of a training, over all the times it was taken up; reading a finished one adds
        nothing."""
        begin, done = time.perf_counter(), updates_of(self.out / "runs" / name)
        try:
            yield
        finally:
            fresh = updates_of(self.out / "runs" / name) > done
            self._note(name, time.perf_counter() - begin if fresh else 0.0)

    def _note(self, name: str, seconds: float) -> None:
        path = self.out / "runs" / f"{name}.seconds"
        before = _seconds(path)
        self.seconds[name] = None if before is None else round(before + seconds, 1)
        if before is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, str(self.seconds[name]).encode())

    def draw(self, drawing: Drawing, caption: str, part: str = "") -> None:
        """Save a drawing as PNG and PDF with its caption."""
        name = self.figure.name + (f"-{part}" if part else "")
        for kind in ("png", "pdf"):
            drawing.savefig(self.out / f"{name}.{kind}", dpi=150)
        (self.out / f"{name}.txt").write_text(caption + "\n")
        self.files += [f"{name}.{kind}" for kind in ("png", "pdf", "txt")]

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Any]], part: str = "") -> None:
        """Save numbers as CSV."""
        name = f"{self.figure.name}{f'-{part}' if part else ''}.csv"
        with open(self.out / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(
                [f"{x:.5g}" if isinstance(x, float) else x for x in row] for row in rows
            )
        self.files.append(name)

    def episode(self, world: World, episode: "Episode", title: str, behaviour: str) -> None:
        """Save an episode for the report's player."""
        from ..report.playback import save_playback

        name = f"episodes/{title.replace(', ', '-').replace(' ', '-')}.json"
        save_playback(world, episode, self.out / name, title, behaviour)
        self.files.append(name)


def run_name(world: str, seed: int, quick: bool) -> str:
    return f"{world}-{seed}{'-quick' * quick}"


def planned_updates(world: str, quick: bool) -> int:
    """Updates of a training."""
    from ..variational.config import make_config

    return make_config(make(world), 1, QUICK if quick else {}).updates


def updates_of(run: Path) -> int:
    """Updates that a run directory has behind it, by its newest checkpoint."""
    found = sorted((run / "checkpoints").glob("*.safetensors"))
    return int(found[-1].stem) if found else 0


def _seconds(path: Path) -> float | None:
    """What was noted of a training before; None where that cannot be read."""
    try:
        return float(path.read_bytes()) if path.exists() else 0.0
    except (OSError, ValueError):
        return None


class Progress:
    """One display for everything that is made, counted in updates of the trainings."""

    STEP = 100
    """What a figure's own work counts, in updates."""

    def __init__(self, total: int, shown: bool = True):
        from tqdm import tqdm

        self._bar = tqdm(total=total, unit="update", disable=not shown, dynamic_ncols=True)
        self._seen: dict[Path, int] = {}

    def now(self, what: str) -> None:
        self._bar.set_description_str(what)

    def add(self, updates: int) -> None:
        self._bar.update(updates)

    def follow(self, run: Path) -> None:
        """Count what a training has done since it was last looked at; figures may share one."""
        done = updates_of(run)
        self.add(done - self._seen.get(run, 0))
        self._seen[run] = done

    @contextlib.contextmanager
    def watching(self, doing: str, *runs: Path) -> Iterator[None]:
        """Follow trainings while they run; `doing` says which, with a gap for what they do."""
        stop = threading.Event()
        begun = sum(map(updates_of, runs))

        def watch() -> None:
            while not stop.wait(1.0):
                follow()

        def follow() -> None:
            for run in runs:
                self.follow(run)
            self.now(
                doing.format("learning" if sum(map(updates_of, runs)) > begun else "compiling")
            )

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            follow()

    def close(self) -> None:
        self._bar.close()


def provenance() -> dict[str, Any]:
    """Versions, commit and machine."""
    versions = {"empowerment": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = {"processor": _processor(), "cores": cores, "system": platform.platform()}
    return {"versions": versions, "commit": _commit(), "machine": machine}


def _processor() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    return platform.processor() or platform.machine()


def _commit() -> str:
    """The commit where the package is a checkout's, else its version."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        command = ["git", "-C", str(here), *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        # A checkout that only surrounds an installation is not the package's own.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return f"version {__version__}"


def write_json(path: Path, content: Any) -> None:
    """All or nothing."""
    write_atomically(path, json.dumps(content, indent=1).encode())
