"""What the page shows, gathered from a directory; a file that cannot be read becomes a note, never
an error."""

import csv
import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..worlds.registry import worlds
from .leaderboard import leaderboard, read
from .panels import landscape_panel, run_panels, steps_shown
from .playback import FORMAT as PLAYBACK
from .playback import check_playback

LARGEST_JSON = 8 * 2**20  # bytes
LARGEST_PICTURE = 2 * 2**20
LARGEST_CURVE = 2**28
LARGEST_CAPTION = 2**16
DEEPEST = 32
"""Lists in lists in a JSON file."""
UNREADABLE = (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError)
MOST_ROWS = 200
"""Rows of a table that are shown."""
MOST_POINTS = 300
"""Points of a training curve."""
CURVES = ("bound", "source_loss")
SHOWN_METRICS = ("updates", *CURVES)


def gather(directory: Path, say: Callable[[str], None] = lambda message: None) -> dict[str, Any]:
    """Collect the runs, landscapes and scores in a directory and its subdirectories, as JSON."""
    notes: list[str] = []
    runs = _runs(directory, notes)
    panels = [p for group in _grouped(runs) for p in _panels(directory, group, notes, say)]
    panels += _landscapes(directory, panels, notes)
    scores = read(_files(directory, "*.json"), LARGEST_JSON)
    table, estimates = leaderboard(scores, notes)
    return {
        "name": directory.resolve().name,
        "leaderboard": table,
        "panels": panels + estimates,
        "curves": [
            _curves(group)
            for group in _grouped(runs)
            if any(run["curve"]["updates"] for run in group)
        ],
        "runs": [{name: run[name] for name in ("run", "world", "facts")} for run in runs],
        "claims": _claims(directory, notes),
        "episodes": _episodes(directory, notes),
        "pictures": list(_pictures(directory, notes)),
        "tables": list(_tables(directory, notes)),
        "numbers": _numbers(directory, notes),
        "notes": notes,
    }


def _files(directory: Path, pattern: str) -> list[Path]:
    """Files below the directory that lie in no run's checkpoints, in order of their paths."""
    found = (p for p in directory.rglob(pattern) if p.is_file() and not p.is_symlink())
    return sorted(p for p in found if "checkpoints" not in p.relative_to(directory).parts)


def _json(path: Path, directory: Path, notes: list[str]) -> Any:
    """A JSON file's content, or None and a note."""
    name = str(path.relative_to(directory))
    try:
        if path.stat().st_size > LARGEST_JSON:
            return notes.append(
                f"{name} is larger than {LARGEST_JSON // 2**20} MiB and was left out"
            )
        found = json.loads(path.read_bytes())
    except UNREADABLE:
        return notes.append(f"{name} is not JSON and was left out")
    level = [found]
    for _ in range(DEEPEST):
        level = [x for part in level for x in (part.values() if isinstance(part, dict) else part)]
        level = [x for x in level if isinstance(x, dict | list)]
    return notes.append(f"{name} is nested too deeply and was left out") if level else found


def _text(path: Path, largest: int) -> str:
    """A file's text; none where there is no such file of its own, or a huge one: a link may lead
    anywhere."""
    try:
        return (
            path.read_text(errors="replace")
            if not path.is_symlink() and path.stat().st_size <= largest
            else ""
        )
    except OSError:
        return ""


def _said(error: Exception, directory: Path) -> str:
    """What went wrong, without the way to the directory."""
    return str(error).replace(f"{directory}{os.sep}", "")


def _runs(directory: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Descriptions and curves of the trainings."""
    runs = []
    for path in _files(directory, "run.json"):
        facts = _json(path, directory, notes)
        if not isinstance(facts, dict) or not isinstance(facts.get("config"), dict):
            notes.append(
                f"{path.parent.relative_to(directory)}: its run.json describes no training"
            )
            continue
        spec = facts.get("world")
        world = (
            str(spec.get("name", spec.get("kind", "world")))
            if isinstance(spec, dict)
            else "a world of its own program"
        )
        name = str(path.parent.relative_to(directory))
        name = directory.resolve().name if name == "." else name
        runs.append(
            {
                "run": name,
                "path": path.parent,
                "world": world,
                "facts": facts,
                "curve": _curve(path.parent),
            }
        )
    return runs


def _curve(run: Path) -> dict[str, list[float]]:
    """Metrics, thinned; damaged lines are passed over."""
    rows = []
    for line in _text(run / "metrics.jsonl", LARGEST_CURVE).splitlines():
        try:
            rows.append([float(json.loads(line)[name]) for name in SHOWN_METRICS])
        except UNREADABLE:
            continue
    keep = rows[:: -(-len(rows) // MOST_POINTS) or 1]
    if rows and keep[-1] != rows[-1]:
        keep.append(rows[-1])
    return {name: [row[i] for row in keep] for i, name in enumerate(SHOWN_METRICS)}


def _grouped(runs: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Trainings of the same world and the same question together."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        config = run["facts"]["config"]
        question = [config.get(name) for name in ("horizon", "beta", "feedback", "discount")]
        key = json.dumps([run["facts"].get("world"), *question], sort_keys=True)
        groups.setdefault(key, []).append(run)
    order = {name: i for i, name in enumerate(worlds())}
    return sorted(groups.values(), key=lambda group: order.get(group[0]["world"], len(order)))


def _curves(group: list[dict[str, Any]]) -> dict[str, Any]:
    first = group[0]
    runs = [{"run": run["run"], "seed": run["facts"].get("seed"), **run["curve"]} for run in group]
    return {
        "name": first["world"],
        "horizon": steps_shown(first["facts"]["config"].get("horizon")),
        "runs": runs,
    }


def _panels(
    directory: Path, group: list[dict[str, Any]], notes: list[str], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    from ..variational.training import load

    estimators, names, seeds = [], [], []
    for run in group:
        try:
            estimators.append(load(run["path"]))
        except UNREADABLE as error:
            notes.append(f"{run['run']}: {_said(error, directory)}")
            continue
        names.append(run["run"])
        seeds.append(run["facts"].get("seed"))
    if not estimators:
        return []
    say(f"report: {group[0]['world']}")
    try:
        return run_panels(estimators, names, seeds, notes)
    except (ValueError, MemoryError) as error:
        notes.append(f"{names[0]}: no landscape ({error})")
        return []


def _landscapes(
    directory: Path, known: list[dict[str, Any]], notes: list[str]
) -> list[dict[str, Any]]:
    """Landscapes that were saved, except those whose values are shown beside a training; where
    another of the same name is shown, they are distinguished by their path."""
    from ..landscape import Landscape

    panels: list[dict[str, Any]] = []
    for path in _files(directory, "*.safetensors"):
        try:
            panel = landscape_panel(Landscape.load(path))
        except UNREADABLE as error:
            notes.append(f"{path.relative_to(directory)}: {_said(error, directory)}")
            continue
        alike = [
            p
            for p in known + panels
            if (p["name"], p["horizon"]) == (panel["name"], panel["horizon"])
        ]
        if not any(panel["exact"] is not None and panel["exact"] == p["exact"] for p in alike):
            panels.append(panel | {"scene": str(path.relative_to(directory))} if alike else panel)
    return panels


def _claims(directory: Path, notes: list[str]) -> list[dict[str, Any]]:
    """The claims of all files; of one that several files have, the one nearest to the top."""
    claims: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(_files(directory, "claims.json"), key=lambda path: len(path.parts)):
        found, name = _json(path, directory, notes), path.relative_to(directory)
        if not isinstance(found, list) or not all(isinstance(claim, dict) for claim in found):
            notes.append(f"{name} holds no list of claims")
            continue
        new = {(str(claim.get("figure")), str(claim.get("claim"))): claim for claim in found}
        if again := len(new.keys() & claims.keys()):
            notes.append(
                f"{name}: {again} of its claims are those of another file too, which are shown"
            )
        claims = new | claims
    return list(claims.values())


def _episodes(directory: Path, notes: list[str]) -> list[dict[str, Any]]:
    episodes = []
    for path in _files(directory, "*.json"):
        if path.name in ("run.json", "claims.json", "numbers.json", "episode.json"):
            continue
        found = _json(path, directory, notes)
        if not isinstance(found, dict) or found.get("format") != PLAYBACK:
            continue
        try:
            episodes.append(check_playback(found))
        except (ValueError, TypeError, KeyError) as error:
            notes.append(f"{path.relative_to(directory)} cannot be played ({error})")
    return episodes


def _pictures(directory: Path, notes: list[str]) -> Iterator[dict[str, str]]:
    for path in _files(directory, "*.png"):
        name = str(path.relative_to(directory).with_suffix(""))
        try:
            data = path.read_bytes() if path.stat().st_size <= LARGEST_PICTURE else b""
        except OSError:
            data = b""
        if not data.startswith(b"\x89PNG\r\n\x1a\n"):
            notes.append(
                f"{name}.png is no picture, or larger than {LARGEST_PICTURE // 2**20} MiB, and was "
                "left out"
            )
            continue
        caption = _text(path.with_suffix(".txt"), LARGEST_CAPTION).strip()
        yield {"name": name, "caption": caption, "png": b64encode(data).decode()}


def _tables(directory: Path, notes: list[str]) -> Iterator[dict[str, Any]]:
    for path in _files(directory, "*.csv"):
        try:
            with open(path, newline="", errors="replace") as file:
                rows = [row for row, _ in zip(csv.reader(file), range(MOST_ROWS + 2), strict=False)]
        except (csv.Error, OSError) as error:
            notes.append(f"{path.relative_to(directory)} is no table ({error})")
            continue
        name = str(path.relative_to(directory).with_suffix(""))
        yield {"name": name, "rows": rows[: MOST_ROWS + 1], "cut": len(rows) > MOST_ROWS + 1}


def _numbers(directory: Path, notes: list[str]) -> list[dict[str, Any]]:
    """What `reproduce` noted of each figure: settings, seeds, versions, commit, machine,
    seconds."""
    found = (_json(path, directory, notes) for path in _files(directory, "*numbers.json"))
    return [{k: v for k, v in x.items() if k != "claims"} for x in found if isinstance(x, dict)]
