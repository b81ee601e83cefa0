"""Figures of the paper as data: worlds, horizon and claims, made through the same calls as a user's."""

import csv
import html
import json
import platform
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__, exact, make
from ..landscape import Comparison, Landscape, compare
from ..worlds.registry import did_you_mean

QUICK = 600
"""Updates of a quick run: the figures are recognisable, the numbers are not final."""


@dataclass(frozen=True)
class Claim:
    """One statement, what counts as shown, and what was found."""

    figure: str
    claim: str
    criterion: str
    exact: float | str | None
    learned: dict[str, float] | None
    seeds: int
    shown: bool


@dataclass(frozen=True)
class Room:
    """One world's part of the static figure."""

    exact: Landscape
    learned: list[Landscape]
    fits: list[Comparison]
    seconds: list[float]


def reproduce(figure: str, out: Path, seeds: int, quick: bool, say: Callable[[str], None]) -> list[Claim]:
    """Make a figure, its numbers and its report in `out`; what is there already is not made again."""
    names = list(FIGURES) if figure == "all" else [figure]
    for name in names:
        if name not in FIGURES:
            raise ValueError(
                f"figure {name!r} is unknown{did_you_mean(name, FIGURES)}; give one of {', '.join(FIGURES)} or all"
            )
    out.mkdir(parents=True, exist_ok=True)
    claims = [claim for name in names for claim in FIGURES[name](out, seeds, quick, say)]
    (out / "claims.json").write_text(json.dumps([asdict(claim) for claim in claims], indent=1))
    (out / "report.html").write_text(page(out, claims))
    return claims


def static(out: Path, seeds: int, quick: bool, say: Callable[[str], None]) -> list[Claim]:
    """Section 5.1."""
    from .static import draw_static

    rooms = []
    for name in ("open-room", "cross-room", "two-rooms"):
        say(f"{name}: exact")
        rooms.append(_room(name, out, seeds, quick, say))
    figure = draw_static([room.exact for room in rooms], [room.learned[0] for room in rooms])
    for kind in ("png", "pdf"):
        figure.savefig(out / f"static.{kind}", dpi=150)
    (out / "static.txt").write_text(
        "Empowerment of every location in three rooms, K = 5: exact (counting) above, learned from 20 x 20 pixels "
        "below; right, learned against exact in two-rooms. Values in nats.\n"
    )
    _write_table(out / "static.csv", rooms)
    return [claim for room in rooms for claim in _claims(room)]


def _room(name: str, out: Path, seeds: int, quick: bool, say: Callable[[str], None]) -> Room:
    from ..variational.training import train

    world = make(name)
    truth = exact(world, 5)
    learned, seconds = [], []
    for seed in range(seeds):
        say(f"{name}: learning, seed {seed}")
        begin = time.perf_counter()
        settings: dict[str, Any] = {"updates": QUICK} if quick else {}
        run = out / "runs" / f"{name}-{seed}{'-quick' * quick}"
        learned.append(train(world, 5, seed, run, resume=True, **settings).landscape())
        seconds.append(time.perf_counter() - begin)
    return Room(truth, learned, [compare(land, truth) for land in learned], seconds)


def _claims(room: Room) -> list[Claim]:
    name, n = room.exact.world, len(room.fits)

    def summary(values: list[float]) -> dict[str, float]:
        return {"median": float(np.median(values)), "min": min(values), "max": max(values)}

    pearson, r2 = ([float(getattr(fit, key)) for fit in room.fits] for key in ("pearson", "r2"))
    best = room.exact.nats.max()
    at_learned = [float(room.exact.nats[land.nats.argmax()]) for land in room.learned]
    return [
        Claim(
            "static",
            f"{name}: learned values agree with exact ones (the paper: correlation 1.00 in two-rooms)",
            "median Pearson >= 0.995",
            None,
            summary(pearson),
            n,
            bool(np.median(pearson) >= 0.995),
        ),
        Claim(
            "static",
            f"{name}: learned values are close to exact ones (the paper: R² 0.90 in two-rooms)",
            "median R² >= 0.99, worst >= 0.97",
            None,
            summary(r2),
            n,
            bool(np.median(r2) >= 0.99 and min(r2) >= 0.97),
        ),
        Claim(
            "static",
            f"{name}: the maximum is in the same place, so that agents behave alike",
            "exact empowerment at the learned maximum within 0.01 nats of the highest",
            float(best),
            summary(at_learned),
            n,
            bool(min(at_learned) >= best - 0.01),
        ),
    ]


def _write_table(path: Path, rooms: list[Room]) -> None:
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["world", "seed", "pearson", "r2", "bias_nats", "max_error_nats", "argmax_agrees", "seconds"])
        for room in rooms:
            for seed, (fit, seconds) in enumerate(zip(room.fits, room.seconds, strict=True)):
                numbers = [f"{x:.5f}" for x in (fit.pearson, fit.r2, fit.bias, fit.max_error)]
                rows.writerow([room.exact.world, seed, *numbers, fit.argmax_agrees, f"{seconds:.1f}"])


def page(out: Path, claims: list[Claim]) -> str:
    """One self-contained page: the claims, and the figures that are there."""
    rows = "".join(
        f"<tr><td>{html.escape(c.claim)}</td><td>{html.escape(c.criterion)}</td>"
        f"<td>{'' if c.exact is None else html.escape(f'{c.exact:.4f}')}</td>"
        f"<td>{html.escape(_range(c.learned))}</td><td>{c.seeds}</td><td>{'yes' if c.shown else 'no'}</td></tr>"
        for c in claims
    )
    pictures = "".join(
        f'<figure><img alt="{html.escape(path.stem)}" src="data:image/png;base64,'
        f'{b64encode(path.read_bytes()).decode()}"><figcaption>{_caption(path)}</figcaption></figure>'
        for path in sorted(out.glob("*.png"))
    )
    made = f"empowerment {__version__}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Empowerment</title>'
        '<meta name="viewport" content="width=device-width"><style>:root{color-scheme:light dark}'
        "body{font:16px/1.5 system-ui;max-width:70rem;margin:auto;padding:1rem}img{max-width:100%}"
        "table{border-collapse:collapse}td,th{border:1px solid #8888;padding:.3rem .6rem;text-align:left}</style>"
        f"<h1>Empowerment: reproduction</h1>{pictures}<table><tr><th>claim<th>criterion<th>exact<th>learned"
        f"<th>seeds<th>shown</tr>{rows}</table><p>{html.escape(made)}</p></html>"
    )


def _caption(path: Path) -> str:
    text = path.with_suffix(".txt")
    return html.escape(text.read_text()) if text.is_file() else ""


def _range(values: dict[str, Any] | None) -> str:
    if values is None:
        return ""
    return f"{values['median']:.4f} ({values['min']:.4f} to {values['max']:.4f})"


FIGURES: dict[str, Callable[[Path, int, bool, Callable[[str], None]], list[Claim]]] = {"static": static}
