"""The page itself: template, style, program and data become one file that needs nothing else.

Text from outside reaches the page only as JSON in a block that is never executed, and the program
puts it there with `textContent`. A content security policy names the one program and the one style
by their hashes, so that nothing else could run even if it got in.
"""

import hashlib
import json
import platform
import time
from base64 import b64encode
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from .. import __version__
from ..files import write_atomically

LIMIT = 8 * 10**6
"""Bytes of a page at most; plans, then the largest pictures and episodes, are left out where there
are more."""


def build_report(directory: str | Path, say: Callable[[str], None] = lambda message: None) -> Path:
    """Write `report.html` into a directory from the runs, figures, tables, episodes and claims in
    and below it."""
    from .data import gather

    directory = Path(directory)
    if not directory.is_dir():
        raise ValueError(
            f"directory {str(directory)!r} does not exist; give one with runs or figures in it"
        )
    data = gather(directory, say)
    parts = ("leaderboard", "panels", "curves", "claims", "episodes", "pictures", "tables")
    if not any(data[part] for part in parts):
        raise ValueError(
            f"directory {str(directory)!r} holds no runs, landscapes, figures, episodes or claims; "
            "train, act or reproduce with --out there first"
        )
    path = directory / "report.html"
    write_atomically(path, render(fit(data)).encode())
    return path


def fit(data: dict[str, Any], limit: int = LIMIT) -> dict[str, Any]:
    """The data without what would make the page too large: plans of the last worlds first, then the
    largest pictures and episodes."""
    panels, notes = [dict(p) for p in data["panels"]], list(data["notes"])
    pictures, episodes = list(data["pictures"]), list(data["episodes"])
    data = data | {"panels": panels, "pictures": pictures, "episodes": episodes, "notes": notes}
    for panel in reversed(panels):
        if _size(data) <= limit:
            return data
        if panel.pop("plans", None) is not None:
            notes.append(f"{panel['name']}: its plans are left out, the page would be too large")
    while (pictures or episodes) and _size(data) > limit:
        largest = max(pictures + episodes, key=lambda part: len(embedded(_plain(part))))
        kind, name, parts = (
            ("picture", "name", pictures) if largest in pictures else ("episode", "title", episodes)
        )
        parts.remove(largest)
        notes.append(f"{largest[name]}: this {kind} is left out, the page would be too large")
    return data


def _size(data: dict[str, Any]) -> int:
    return len(embedded(_plain(data))) + 10**5  # room for the page around the data


def embedded(data: Any) -> str:
    """JSON that cannot end its block, begin a tag or be read as anything but text."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def render(data: dict[str, Any]) -> str:
    """The page's text."""
    here = files("empowerment.report")
    html, style, program = (
        (here / f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js")
    )
    policy = (
        f"default-src 'none'; script-src '{_hash(program)}'; style-src '{_hash(style)}'; img-src "
        "data:; "
        "base-uri 'none'; form-action 'none'"
    )
    made = {
        "version": __version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }
    filled = {
        "POLICY": policy,
        "STYLE": style,
        "PROGRAM": program,
        "DATA": embedded(_plain(data | {"made": made})),
    }
    for (
        name,
        text,
    ) in filled.items():  # the data come last, so that nothing in them is taken for a name
        html = html.replace(f"@{name}@", text, 1)
    return html


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _plain(value: Any) -> Any:
    """JSON without NaN and infinity, which browsers do not read."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return str(value)
    return value
