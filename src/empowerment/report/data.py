"""What the page shows, gathered from a directory; a file that cannot be read becomes a note, never an error."""

import csv
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..worlds.registry import worlds
from .panels import landscape_panel, run_panels
from .playback import FORMAT as PLAYBACK
from .playback import check_playback

LARGEST_JSON = 8 * 2**20  # bytes
LARGEST_PICTURE = 2 * 2**20
MOST_ROWS = 200
"""Rows of a table that are shown."""
MOST_POINTS = 300
"""Points of a training curve."""
CURVES = ("bound", "source_loss")
SHOWN_METRICS = ("updates", *CURVES)


def gather(directory: Path, say: Callable[[str], None] = lambda message: None) -> dict[str, Any]:
    """Everything found in and below a directory, as JSON."""
    notes: list[str] = []
    runs = _runs(directory, notes)
    panels = [p for group in _grouped(runs) for p in _panels(directory, group, notes, say)]
    panels += _landscapes(directory, {(p["name"], p["horizon"]) for p in panels}, notes)
    return {
        "name": directory.resolve().name,
        "panels": panels,
        "curves": [_curves(group) for group in _grouped(runs) if any(run["curve"]["updates"] for run in group)],
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
    if path.stat().st_size > LARGEST_JSON:
        return notes.append(f"{name} is larger than {LARGEST_JSON // 2**20} MiB and was left out")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return notes.append(f"{name} is not JSON and was left out")


def _runs(directory: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Descriptions and curves of the trainings."""
    runs = []
    for path in _files(directory, "run.json"):
        facts = _json(path, directory, notes)
        if not isinstance(facts, dict) or not isinstance(facts.get("config"), dict):
            notes.append(f"{path.parent.relative_to(directory)}: its run.json describes no training")
            continue
        spec = facts.get("world")
        world = (
            str(spec.get("name", spec.get("kind", "world"))) if isinstance(spec, dict) else "a world of its own program"
        )
        name = str(path.parent.relative_to(directory))
        name = directory.resolve().name if name == "." else name
        runs.append({"run": name, "path": path.parent, "world": world, "facts": facts, "curve": _curve(path.parent)})
    return runs


def _curve(run: Path) -> dict[str, list[float]]:
    """Metrics, thinned; damaged lines are passed over."""
    rows = []
    path = run / "metrics.jsonl"
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
        try:
            rows.append([float(json.loads(line)[name]) for name in SHOWN_METRICS])
        except (ValueError, KeyError, TypeError):
            continue
    keep = rows[:: -(-len(rows) // MOST_POINTS) or 1]
    if rows and keep[-1] != rows[-1]:
        keep.append(rows[-1])
    return {name: [row[i] for row in keep] for i, name in enumerate(SHOWN_METRICS)}


def _grouped(runs: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Trainings of the same world and horizon together."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        key = json.dumps([run["facts"].get("world"), run["facts"]["config"].get("horizon")], sort_keys=True)
        groups.setdefault(key, []).append(run)
    order = {name: i for i, name in enumerate(worlds())}
    return sorted(groups.values(), key=lambda group: order.get(group[0]["world"], len(order)))


def _curves(group: list[dict[str, Any]]) -> dict[str, Any]:
    first = group[0]
    runs = [{"run": run["run"], "seed": run["facts"].get("seed"), **run["curve"]} for run in group]
    return {"name": first["world"], "horizon": first["facts"]["config"].get("horizon"), "runs": runs}


def _panels(
    directory: Path, group: list[dict[str, Any]], notes: list[str], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    from ..variational.training import load

    estimators, names, seeds = [], [], []
    for run in group:
        try:
            estimators.append(load(run["path"]))
        except (ValueError, KeyError, TypeError, OSError) as error:
            notes.append(f"{run['run']}: {str(error).replace(str(directory), '.')}")
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


def _landscapes(directory: Path, known: set[tuple[str, int]], notes: list[str]) -> list[dict[str, Any]]:
    """Landscapes that were saved, of worlds that no training covers."""
    from ..landscape import Landscape

    panels = []
    for path in _files(directory, "*.safetensors"):
        try:
            land = Landscape.load(path)
            if (land.world, land.horizon) not in known:
                panels.append(landscape_panel(land))
        except (ValueError, KeyError, TypeError) as error:
            notes.append(f"{path.relative_to(directory)}: {str(error).replace(str(directory), '.')}")
    return panels


def _claims(directory: Path, notes: list[str]) -> list[dict[str, Any]]:
    claims = []
    for path in _files(directory, "claims.json"):
        found = _json(path, directory, notes)
        if isinstance(found, list) and all(isinstance(claim, dict) for claim in found):
            claims += found
        else:
            notes.append(f"{path.relative_to(directory)} holds no list of claims")
    return claims


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
        data = path.read_bytes() if path.stat().st_size <= LARGEST_PICTURE else b""
        if not data.startswith(b"\x89PNG\r\n\x1a\n"):
            notes.append(f"{name}.png is no picture, or larger than {LARGEST_PICTURE // 2**20} MiB, and was left out")
            continue
        text = path.with_suffix(".txt")
        caption = text.read_text(errors="replace").strip() if text.is_file() else ""
        yield {"name": name, "caption": caption, "png": b64encode(data).decode()}


def _tables(directory: Path, notes: list[str]) -> Iterator[dict[str, Any]]:
    for path in _files(directory, "*.csv"):
        with open(path, newline="", errors="replace") as file:
            try:
                rows = [row for row, _ in zip(csv.reader(file), range(MOST_ROWS + 2), strict=False)]
            except csv.Error as error:
                notes.append(f"{path.relative_to(directory)} is no table ({error})")
                continue
        name = str(path.relative_to(directory).with_suffix(""))
        yield {"name": name, "rows": rows[: MOST_ROWS + 1], "cut": len(rows) > MOST_ROWS + 1}


def _numbers(directory: Path, notes: list[str]) -> list[dict[str, Any]]:
    """What `reproduce` noted of each figure: settings, seeds, versions, commit, machine, seconds."""
    found = (_json(path, directory, notes) for path in _files(directory, "*numbers.json"))
    return [{k: v for k, v in x.items() if k != "claims"} for x in found if isinstance(x, dict)]
