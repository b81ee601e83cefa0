"""The benchmark on the page: a table of estimators, and each estimate beside the truth."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..bench.runner import FORMAT, rows_of, summary
from ..bench.tasks import Task, task_named
from ..landscape import Landscape
from .panels import estimate_panel

COLUMNS = {
    "task": "task",
    "estimator": "estimator",
    "seeds": "seeds",
    "r2": "R² (median)",
    "r2_lowest": "lowest R²",
    "pearson": "Pearson",
    "bias": "bias (nats)",
    "max_error": "largest error (nats)",
    "regret": "regret (nats)",
    "violations": "above the bound",
    "steps": "environment steps",
    "processor_seconds": "processor seconds",
    "seconds_to_r2_0.95": "seconds to R² 0.95",
}
"""Columns of the table, with their titles."""


def is_score_file(found: Any) -> bool:
    return isinstance(found, dict) and found.get("format") == FORMAT


def leaderboard(
    files: list[tuple[Path, Any]], notes: list[str]
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The table of all score files, and a panel for each task that lies on a plane."""
    rows, values = [], {}
    for path, found in files:
        try:
            rows += rows_of(found)
        except ValueError as error:
            notes.append(f"{path.name}: {error}")
            continue
        for result in found["results"]:
            values.setdefault(result["task"], {}).setdefault(
                (found["estimator"], result.get("seed", 0)), result["values"]
            )
    if not rows:
        return None, []
    table = [{name: row.get(name) for name in COLUMNS} for row in summary(rows)]
    panels = [
        panel
        for name, found in values.items()
        if (panel := _panel(task_named(name), found)) is not None
    ]
    shown = {panel["name"] for panel in panels}
    return {"columns": COLUMNS, "rows": table, "drawn": sorted(shown)}, panels


def _panel(task: Task, found: dict[tuple[str, Any], list[float]]) -> dict[str, Any] | None:
    """The truth of a task, and every estimate of it; None where its states lie on no plane."""
    if task.kind == "channel":
        return None
    world, truth = task.landscape_world(), task.truth()
    if world.layout is None:
        return None
    land = Landscape.of(world, task.horizon, task.states(), truth.nats, truth.lower, truth.upper)
    estimates = {
        f"{name}, seed {seed}": np.array(values) for (name, seed), values in sorted(found.items())
    }
    return estimate_panel(land, estimates) | {"name": task.name}


def read(paths: list[Path], largest: int) -> list[tuple[Path, Any]]:
    """Those of these files that are score files."""
    found = []
    for path in paths:
        try:
            content = json.loads(path.read_bytes()) if path.stat().st_size <= largest else None
        except (ValueError, OSError, RecursionError):
            continue
        if is_score_file(content):
            found.append((path, content))
    return found
