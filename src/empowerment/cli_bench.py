"""The benchmark on the command line: list, verify, run and score."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tqdm import tqdm
from tyro.conf import Positional, arg

from .bench.certificates import store
from .bench.estimators import ESTIMATORS, estimator_named
from .bench.runner import as_csv, rows_of, run, summary
from .bench.tasks import tasks
from .bench.verify import fingerprint, verify
from .console import Switch, say, show
from .figures.workshop import provenance, write_json
from .files import refuse_unwritable, write_atomically
from .report import build_report

LARGEST_FILE = 2**28  # bytes
Set = Annotated[str, arg(metavar="SET")]


@dataclass(frozen=True)
class List:
    """List the tasks and the estimators.

    Examples:
      empowerment bench list
      empowerment bench list --set held-out --json
    """

    set: Set = "all"
    """all, the name of a task, or a tag: core, paper, held-out, opaque, slip, minigrid, continuous,
    channel, ..."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        rows = [
            {
                "task": task.name,
                "version": task.version,
                "horizon": task.horizon,
                "kind": task.kind,
                "states": len(task.truth().nats),
                "certified": task.certified,
                "minutes": task.minutes,
                "tags": list(task.tags),
            }
            for task in tasks(self.set)
        ]
        lines = [
            f"{r['task']:28} K = {r['horizon']:<3}{r['states']:>5} states  {', '.join(r['tags'])}"
            for r in rows
        ]
        names = [f"{name:24} {estimator.source}" for name, estimator in ESTIMATORS.items()]
        text = "\n".join([f"{len(rows)} tasks", *lines, "", "estimators", *names])
        show(
            {"tasks": rows, "estimators": {n: e.source for n, e in ESTIMATORS.items()}},
            self.json,
            text,
        )


@dataclass(frozen=True)
class Verify:
    """Recompute every certificate, and a sample of states by an independent slow path; exit 1 where
    one is wrong.

    Examples:
      empowerment bench verify
      empowerment bench verify --set opaque
    """

    set: Set = "all"
    """all, the name of a task, or a tag."""
    store: Switch = False
    """First compute and store the truth of these tasks, which are new or have a new version."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        chosen = tasks(self.set)
        if self.store:
            bar = tqdm(chosen, unit="task", desc="computing")
            store({task.name: (task.version, fingerprint(task), task.compute()) for task in bar})
        verdicts = list(tqdm(verify(chosen), total=len(chosen), unit="task", desc="verifying"))
        wrong = {verdict.task: verdict.problem for verdict in verdicts if verdict.problem}
        lines = [f"{name}: {problem}" for name, problem in wrong.items()]
        good = len(verdicts) - len(wrong)
        show(
            {"verified": good, "wrong": wrong},
            self.json,
            "\n".join([*lines, f"{good} of {len(verdicts)} tasks verified"]),
        )
        if wrong:
            raise SystemExit(1)


@dataclass(frozen=True)
class Run:
    """Run estimators on tasks; what is done already is not done again.

    Examples:
      empowerment bench run
      empowerment bench run --set opaque --seeds 3 --out bench
      empowerment bench run --estimator ours paper sparse-sampling
    """

    set: Set = "core"
    """all, the name of a task, or a tag."""
    estimator: tuple[str, ...] = ("ours",)
    """Names of estimators, or all; see 'empowerment bench list'."""
    seeds: int = 1
    """Seeds of each, from 0 on."""
    out: Path = Path("bench")
    """Directory for values, table and page."""
    processes: Annotated[
        int | None, arg(metavar="INT", help_behavior_hint="(default: one for each core)")
    ] = None
    """Fits side by side, each on a core of its own."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        names = tuple(ESTIMATORS) if self.estimator == ("all",) else self.estimator
        rows = run(
            self.set,
            [estimator_named(name) for name in names],
            range(self.seeds),
            self.out,
            self.processes,
        )
        found = summary(rows)
        write_atomically(self.out / "table.csv", as_csv(found).encode())
        write_json(self.out / "provenance.json", provenance())
        page = build_report(self.out)
        say(f"wrote {self.out / 'table.csv'} and {page}")
        show({"rows": found}, self.json, _table(found))


@dataclass(frozen=True)
class Score:
    """Score a JSON file of values from any program.

    Examples:
      empowerment bench score values.json
      empowerment bench score values.json --out bench/theirs
    """

    file: Positional[Annotated[Path, arg(metavar="FILE")]]
    """Score file; docs/benchmark.md says what it holds."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Directory for the table."""
    json: Switch = False
    """Print one JSON object."""

    def run(self) -> None:
        if self.out is not None:
            refuse_unwritable(self.out)
        if not self.file.is_file() or self.file.stat().st_size > LARGEST_FILE:
            raise ValueError(
                f"{str(self.file)!r} is no file of at most {LARGEST_FILE // 2**20} MiB; give a "
                "score file"
            )
        try:
            content = json.loads(self.file.read_bytes())
        except (ValueError, RecursionError):
            raise ValueError(f"{str(self.file)!r} is not JSON; give a score file") from None
        found = summary(rows_of(content))
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            write_atomically(self.out / "table.csv", as_csv(found).encode())
        show({"rows": found}, self.json, _table(found))


def _table(rows: list[dict[str, Any]]) -> str:
    """The numbers that matter most, for a terminal."""
    header = (
        f"{'task':28} {'estimator':22} {'seeds':>5} {'R²':>8} {'bias':>8} {'largest error':>14} "
        f"{'regret':>8}"
    )
    return "\n".join([header, *(_line(row) for row in rows)])


def _line(row: dict[str, Any]) -> str:
    numbers = [row["r2"], row["bias"], row["max_error"], row["regret"]]
    shown = ["–" if x is None else f"{x:.4f}" for x in numbers]
    r2, bias, error, regret = shown
    return (
        f"{row['task']:28} {row['estimator']:22} {row['seeds']:>5} {r2:>8} {bias:>8} {error:>14} "
        f"{regret:>8}"
    )


COMMANDS = {"list": List, "verify": Verify, "run": Run, "score": Score}
