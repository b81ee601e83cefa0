"""The paper with one command: figures as data, made one after the other; what is done already is
not done again."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..worlds.predator_prey import require_mujoco
from ..worlds.registry import did_you_mean
from .behaviours import BEHAVIOURS
from .boxes import BOXES
from .complexity import COMPLEXITY
from .feedback import FEEDBACK
from .key_door import KEY_DOOR
from .lava import LAVA_CORRIDOR, LAVA_MAZE
from .pendulum import PENDULUM
from .predator_prey import PREDATOR_PREY
from .static import STATIC
from .tree import TREE
from .workshop import (
    Claim,
    Figure,
    Progress,
    Workshop,
    planned_updates,
    provenance,
    run_name,
    write_json,
)

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        STATIC,
        TREE,
        BOXES,
        KEY_DOOR,
        LAVA_CORRIDOR,
        LAVA_MAZE,
        PREDATOR_PREY,
        PENDULUM,
        BEHAVIOURS,
        COMPLEXITY,
        FEEDBACK,
    )
}


def reproduce(
    figure: str, out: Path, seeds: int | None, quick: bool, say: Callable[[str], None]
) -> list[Claim]:
    """Make a figure or all of them in `out`, with numbers, claims and a report; resumes where it
    was interrupted.

    `seeds` is the number of trainings of each world, by default each figure's own; `quick` makes
    few updates with one.
    """
    from ..report import build_report

    chosen = _chosen(figure)
    if any("predator-prey" in one.worlds for one in chosen):
        require_mujoco()  # before an hour is spent on the figures that come first
    out.mkdir(parents=True, exist_ok=True)
    progress = Progress(_work(chosen, seeds, quick))
    claims: list[Claim] = []
    try:
        for one in chosen:
            shop = Workshop(one, out, _seeds(one, seeds, quick), quick, progress)
            claims += _made(shop)
            progress.add(Progress.STEP)
            write_json(out / "claims.json", _merged(out, claims, quick))
        progress.now("report")
        build_report(out)
    finally:
        progress.close()
    say(f"wrote the figures, the numbers and the report to {out}")
    return claims


def _chosen(name: str) -> list[Figure]:
    if name == "all":
        return list(FIGURES.values())
    if name not in FIGURES:
        raise ValueError(
            f"figure {name!r} is unknown{did_you_mean(name, FIGURES)}; give one of "
            f"{', '.join(FIGURES)} or all"
        )
    return [FIGURES[name]]


def _seeds(figure: Figure, seeds: int | None, quick: bool) -> int:
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds={seeds} is too few; give 1 or more")
    return seeds if seeds is not None else 1 if quick else figure.seeds


def _work(figures: list[Figure], seeds: int | None, quick: bool) -> int:
    """Updates that all trainings together make, those of finished ones included; each figure's own
    work counts too."""
    runs = {
        run_name(world, seed, quick): planned_updates(world, quick)
        for figure in figures
        for world in figure.worlds
        for seed in range(_seeds(figure, seeds, quick))
    }
    return sum(runs.values()) + Progress.STEP * len(figures)


def _made(shop: Workshop) -> list[Claim]:
    """The figure's claims: read where it is done, else made."""
    path = shop.out / f"{shop.figure.name}.numbers.json"
    wanted = _settings(shop)
    done = _done(path, wanted, shop)
    if done is not None:
        return done
    shop.progress.now(shop.figure.name)
    begin = time.perf_counter()
    findings = shop.figure.make(shop)
    claims = [s.claimed(shop.figure.name, findings[s.key]) for s in shop.figure.statements]
    numbers = {
        "figure": shop.figure.name,
        "settings": wanted,
        "seeds": list(range(shop.seeds)),
        "seconds": {"this call": round(time.perf_counter() - begin, 1), "training": shop.seconds},
        "made": time.strftime("%Y-%m-%d %H:%M"),
        **provenance(),
        "files": shop.files,
        "claims": [asdict(claim) for claim in claims],
    }
    write_json(path, numbers)
    return claims


def _settings(shop: Workshop) -> dict[str, Any]:
    """What decides a figure's numbers; a figure made with others is made again."""
    return {
        "version": __version__,
        "worlds": list(shop.figure.worlds),
        "horizon": shop.figure.horizon,
        "seeds": shop.seeds,
        "quick": shop.quick,
    }


def _done(path: Path, wanted: dict[str, Any], shop: Workshop) -> list[Claim] | None:
    """The claims of a figure that was made with the same settings and whose files are all there."""
    try:
        numbers = json.loads(path.read_bytes())
        claims = [Claim(**claim) for claim in numbers["claims"]]
        whole = numbers["settings"] == wanted and all(
            (shop.out / name).is_file() for name in numbers["files"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not whole or [c.claim for c in claims] != [s.claim for s in shop.figure.statements]:
        return None
    for world in shop.figure.worlds:
        for seed in range(shop.seeds):
            shop.progress.follow(shop.out / "runs" / run_name(world, seed, shop.quick))
    return claims


def _merged(out: Path, claims: list[Claim], quick: bool) -> list[dict[str, Any]]:
    """These claims and, in the order of the figures, those of others that this version made here,
    as quickly or not."""
    merged = []
    for name in FIGURES:
        own = [asdict(claim) for claim in claims if claim.figure == name]
        merged += own or _kept(out / f"{name}.numbers.json", quick)
    return merged


def _kept(path: Path, quick: bool) -> list[dict[str, Any]]:
    try:
        numbers = json.loads(path.read_bytes())
        settings = numbers["settings"]
        same = settings["version"] == __version__ and settings["quick"] == quick
        return [asdict(Claim(**claim)) for claim in numbers["claims"]] if same else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
