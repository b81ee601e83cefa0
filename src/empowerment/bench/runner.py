"""Runs estimators on tasks: one file for each estimator, task and seed, so that a run resumes where
it stopped."""

import csv
import io
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from .. import _version
from ..files import refuse_unwritable, write_atomically
from ..variational.seeds import cores, side_by_side
from .estimators import Estimator, Fitted, estimator_named
from .scoring import check_values, score, time_to
from .tasks import Task, task_named, tasks

FORMAT = "empowerment scores 1"
NUMBERS = (
    "r2",
    "pearson",
    "bias",
    "max_error",
    "relative_error",
    "regret",
    "regret_share",
    "violations",
)
COSTS = ("steps", "processor_seconds", "seconds_to_r2_0.95")


def run(
    which: str | Sequence[Task] = "core",
    estimators: Sequence[str | Estimator] = ("ours",),
    seeds: Iterable[int] = (0,),
    out: str | Path = "bench",
    processes: int | None = None,
    progress: bool = True,
) -> list[dict[str, Any]]:
    """Fit every estimator to every task that it applies to, once for each seed; returns a row of
    scores for each.

    What is in `out` already is not done again. By default as many run side by side as there are
    cores; estimators of one's own that cannot be pickled need `processes=1`.
    """
    directory = Path(out)
    refuse_unwritable(directory)
    chosen = tasks(which) if isinstance(which, str) else tuple(which)
    methods = [estimator_named(e) if isinstance(e, str) else e for e in estimators]
    jobs = [(e, t, int(s)) for e, t, s in product(methods, chosen, seeds) if e.applies(t)]
    if not jobs:
        raise ValueError(
            "there is nothing to do: no estimator applies to these tasks, or there are no seeds; "
            "give others"
        )
    _refuse_missing(chosen)
    left = [job for job in jobs if not _path(directory, *job).is_file()]
    work = partial(_do, directory)
    with tqdm(
        total=len(jobs), initial=len(jobs) - len(left), unit="fit", disable=not progress
    ) as bar:
        if (processes or len(cores())) == 1 or len(left) <= 1:
            for job in left:
                bar.set_description_str(f"{job[0].name}: {job[1].name}, seed {job[2]}")
                work(job)
                bar.update()
        else:
            side_by_side(work, left, lambda: bar.update(), processes)
    return [row_of(json.loads(_path(directory, *job).read_bytes())) for job in jobs]


def _refuse_missing(chosen: Sequence[Task]) -> None:
    """Before anything is learned: MiniGrid is an extra."""
    if find_spec("minigrid") is None and any("minigrid" in task.name for task in chosen):
        raise ValueError(
            'these tasks need minigrid; install it with: pip install ".[gym-extra]" in the clone'
        )


def _path(directory: Path, estimator: Estimator, task: Task, seed: int) -> Path:
    return directory / "values" / estimator.name / f"{task.name}-v{task.version}-seed-{seed}.json"


def _do(directory: Path, job: tuple[Estimator, Task, int]) -> None:
    """Fit once, and keep the values with what they cost."""
    estimator, task, seed = job
    begin = time.process_time()
    try:
        fitted = estimator.fit(task, seed)
        fitted = fitted if isinstance(fitted, Fitted) else Fitted(fitted)
        values = check_values(task, fitted.values(task.observations()))
    except ValueError as error:
        raise ValueError(
            f"estimator {estimator.name!r} failed on task {task.name!r}, seed {seed}: {error}"
        ) from error
    truth = task.truth()
    found = {
        "task": task.name,
        "version": task.version,
        "seed": seed,
        "values": values.tolist(),
        "steps": fitted.steps,
        "processor_seconds": time.process_time() - begin,
        "seconds_to_r2_0.95": _number(time_to(fitted.curve, truth)),
    }
    path = _path(directory, estimator, task, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "format": FORMAT,
        "estimator": estimator.name,
        "package": _version.__version__,
        "results": [found],
    }
    write_atomically(path, json.dumps(facts).encode())


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def row_of(scored: dict[str, Any]) -> dict[str, Any]:
    """The row of a file with one result."""
    return rows_of(scored)[0]


def rows_of(scored: Any) -> list[dict[str, Any]]:
    """A row of scores for each result of a score file; a ValueError says what is wrong with it.

    A score file is JSON: {"format": "empowerment scores 1", "estimator": NAME, "results": [{"task":
    NAME, "version": 1, "seed": 0, "values": [nats of each state]}]}; `steps` and
    `processor_seconds` may be added to a result.
    """
    if not isinstance(scored, dict) or scored.get("format") != FORMAT:
        raise ValueError(f"the file is no score file; give a JSON object with format {FORMAT!r}")
    if not isinstance(scored.get("estimator"), str) or not isinstance(scored.get("results"), list):
        raise ValueError("the file says no estimator or holds no list of results; give both")
    return [_scored(scored["estimator"], result, i) for i, result in enumerate(scored["results"])]


def _scored(estimator: str, result: Any, i: int) -> dict[str, Any]:
    if not isinstance(result, dict) or not {"task", "version", "values"} <= result.keys():
        raise ValueError(f"result {i} of the file has no task, version and values; give all three")
    task = task_named(str(result["task"]))
    if result["version"] != task.version:
        raise ValueError(
            f"result {i} of the file is for version {result['version']!r} of task {task.name!r}, "
            "which has version "
            f"{task.version}; compute its values again"
        )
    seed = result.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f"result {i} of the file has seed {seed!r}; give a whole number")
    costs = {name: result.get(name) for name in COSTS}
    for name, cost in costs.items():
        if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float)):
            raise ValueError(
                f"result {i} of the file has {name} {cost!r}; give a number, or leave it out"
            )
    return {
        "estimator": estimator,
        "task": task.name,
        "seed": seed,
        **asdict(score(task, result["values"])),
        **costs,
    }


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each estimator and task: medians over seeds, and the lowest and highest R²."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["task"], row["estimator"]), []).append(row)
    return [_summed(task, estimator, group) for (task, estimator), group in groups.items()]


def _summed(task: str, estimator: str, group: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"task": task, "estimator": estimator, "seeds": len(group)}
    for name in (*NUMBERS, *COSTS):
        values = [row[name] for row in group if row[name] is not None]
        found[name] = float(np.nanmedian(values)) if values and not np.isnan(values).all() else None
    fits = [row["r2"] for row in group]
    return found | {"r2_lowest": _number(min(fits)), "r2_highest": _number(max(fits))}


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as comma-separated values, numbers to six digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["task"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
    )
    return text.getvalue()
