"""The stored truth of every task: one file, with a checksum of each task's values and of its
world."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..files import write_atomically

FORMAT = "empowerment benchmark 1"
FILE = Path(str(files("empowerment.bench") / "truth.safetensors"))
PARTS = ("nats", "lower", "upper")


@dataclass(frozen=True, eq=False)
class Truth:
    """Values of a task's states, in nats."""

    nats: np.ndarray
    lower: np.ndarray
    """Proved lower bounds; NaN where nothing is proved."""
    upper: np.ndarray
    """Proved upper bounds; NaN where nothing is proved."""

    def digest(self) -> str:
        return digest(self.nats, self.lower, self.upper)


def digest(*arrays: Any) -> str:
    """Checksum of arrays with their shapes and types."""
    found = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def stored(name: str, version: int) -> Truth:
    """The stored truth of a task; a ValueError says what is wrong with it."""
    facts, arrays = _read(FILE)
    if name not in facts:
        raise ValueError(
            f"task {name!r} has no stored truth; run 'empowerment bench verify --store'"
        )
    if facts[name]["version"] != version:
        raise ValueError(
            f"the stored truth of task {name!r} is of version {facts[name]['version']}, and the "
            f"task of {version}; "
            "run 'empowerment bench verify --store'"
        )
    truth = Truth(*(arrays[f"{name}/{part}"] for part in PARTS))
    if truth.digest() != facts[name]["values"]:
        raise ValueError(
            f"the stored truth of task {name!r} is damaged: its checksum does not agree; reinstall "
            "the package"
        )
    return truth


def world_digest(name: str) -> str:
    """Checksum of what was seen in the states of a task when its truth was stored."""
    return str(_read(FILE)[0][name]["world"])


def store(found: Mapping[str, tuple[int, str, Truth]], path: Path = FILE) -> None:
    """Add the truth of tasks to the file: for each its version, the checksum of its world, and its
    values.

    A task that is there already keeps its values until it has another version.
    """
    before, arrays = _read(path) if path.is_file() else ({}, {})
    for name, (version, world, truth) in found.items():
        old = before.get(name, {})
        if old.get("version") == version and (old["world"], old["values"]) != (
            world,
            truth.digest(),
        ):
            raise ValueError(
                f"task {name!r} has other values than those stored for version {version}; give it "
                "a new version"
            )
    facts = before | {
        n: {"version": v, "world": w, "values": t.digest(), "states": len(t.nats)}
        for n, (v, w, t) in found.items()
    }
    arrays = arrays | {
        f"{n}/{part}": getattr(t, part) for n, (_, _, t) in found.items() for part in PARTS
    }
    header = {"tasks": json.dumps({"format": FORMAT, "tasks": facts}, sort_keys=True)}
    write_atomically(
        path, save({name: np.ascontiguousarray(x) for name, x in arrays.items()}, metadata=header)
    )
    _read.cache_clear()


@cache
def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("tasks", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, ValueError, OSError) as error:
        raise ValueError(
            f"the stored truth {str(path)!r} cannot be read ({error}); reinstall the package"
        ) from None
    if header.get("format") != FORMAT:
        raise ValueError(
            f"the stored truth {str(path)!r} is of another format; reinstall the package"
        )
    return header["tasks"], arrays
