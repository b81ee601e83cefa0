"""Section 5.2, the four box rooms: boxes that can be moved are tools, fixed ones are in the way."""

import numpy as np
from matplotlib.figure import Figure as Drawing

from .. import make
from ..landscape import Landscape, compare
from .static import FIT_HEADER, fit_row
from .workshop import Figure, Finding, Statement, Workshop, all_at_least, all_at_most

ROOMS = {
    "box-empty": "a) empty",
    "box-fixed": "b) fixed box",
    "box-movable": "c) movable box",
    "box-row": "d) row of movable boxes",
}
FIXED = (9, 9)
"""Where the obstacle of box-fixed stands."""


def draw_rooms(pairs: list[tuple[Landscape, Landscape]], titles: list[str]) -> Drawing:
    """Exact above learned, one column for each world; the two of a column share their colours."""
    tallest = max(land.grid().shape[0] / land.grid().shape[1] for land, _ in pairs)
    drawing = Drawing(figsize=(3.3 * len(pairs), 2 * (2.1 * tallest + 0.7)), layout="constrained")
    axes = drawing.subplots(2, len(pairs), squeeze=False)
    for column, (pair, title) in enumerate(zip(pairs, titles, strict=True)):
        values = np.concatenate([land.nats for land in pair])
        for row, (land, kind) in enumerate(zip(pair, ("exact", "learned"), strict=True)):
            land.plot(axes[row, column], limits=(float(values.min()), float(values.max())))
            axes[row, column].set_title(f"{title}, {kind}", fontsize=9)
    return drawing


def make_boxes(shop: Workshop) -> dict[str, Finding]:
    truths, learned = {}, {}
    for name in ROOMS:
        truths[name] = shop.exact(make(name))
        learned[name] = [estimator.landscape() for estimator in shop.trained(name)]
    fits = {name: [compare(land, truths[name]) for land in learned[name]] for name in ROOMS}
    shop.draw(
        draw_rooms([(truths[name], learned[name][0]) for name in ROOMS], list(ROOMS.values())),
        "Empowerment of every location in four rooms with boxes at their start, K = "
        f"{shop.figure.horizon}: exact "
        "(counting) above, learned from 20 x 20 pixels below. Boxes that can be moved are marked "
        "b. Values in nats.",
    )
    shop.table(
        ["world", "seed", *FIT_HEADER],
        [[name, seed, *fit_row(fit)] for name in ROOMS for seed, fit in enumerate(fits[name])],
    )
    findings = {f"{name} r2": Finding(None, [fit.r2 for fit in fits[name]]) for name in ROOMS}
    return findings | {
        "flat": Finding(
            _roughness(truths["box-empty"]), [_roughness(land) for land in learned["box-empty"]]
        ),
        "low": Finding(
            around_obstacle(truths["box-fixed"], truths["box-empty"]),
            [
                around_obstacle(*pair)
                for pair in zip(learned["box-fixed"], learned["box-empty"], strict=True)
            ],
        ),
        "box-movable high": distances(truths["box-movable"], learned["box-movable"], "box"),
        "box-row high": distances(truths["box-row"], learned["box-row"], "box"),
    }


def _roughness(land: Landscape) -> float:
    """Difference of the highest and the lowest value over cells that no wall is within reach of."""
    assert land.positions is not None  # rooms have a layout
    inside = land.grid().shape[0] - 1 - land.horizon
    middle = ((land.positions >= land.horizon + 1) & (land.positions < inside)).all(axis=1)
    return float(np.ptp(land.nats[middle]))


def around_obstacle(fixed: Landscape, empty: Landscape) -> float:
    """Mean over the eight cells around the fixed box, less that of the same cells in the empty
    room."""
    near = np.ix_(*(range(i - 1, i + 2) for i in FIXED))
    return float(np.nanmean((fixed.grid() - empty.grid())[near]))


def distances(truth: Landscape, learned: list[Landscape], kind: str) -> Finding:
    """How many cells the highest place is from the nearest thing of a kind, exact and in each
    seed."""
    return Finding(distance(truth, kind), [distance(land, kind) for land in learned])


def distance(land: Landscape, kind: str) -> float:
    assert land.layout is not None  # these worlds have one
    assert land.positions is not None
    things = np.array([(row, column) for name, row, column in land.layout.marks if name == kind])
    return float(np.abs(things - land.positions[land.nats.argmax()]).max(axis=1).min())


def _statements() -> tuple[Statement, ...]:
    close = tuple(
        Statement(
            f"{name} r2",
            f"{name}: learned values are close to exact ones",
            "R² >= 0.95",
            all_at_least(0.95),
        )
        for name in ROOMS
    )
    return (
        *close,
        Statement(
            "flat",
            "in an empty room empowerment is the same almost everywhere but close to the walls",
            "over cells more than K steps from every wall, highest less lowest <= 0.2 nats",
            all_at_most(0.2),
        ),
        Statement(
            "low",
            "a fixed box limits what can be reached: empowerment is low around it",
            "mean of the eight cells around it, less the empty room's: at least half as low as "
            "exact in every seed",
            lambda f: f.exact is not None and f.exact < 0 and max(f.learned) <= f.exact / 2,
        ),
        *(
            Statement(
                f"{name} high",
                f"{name}: boxes that can be moved are tools: empowerment is highest next to them",
                "cells between the highest place and the nearest box <= 1",
                all_at_most(1.0),
            )
            for name in ("box-movable", "box-row")
        ),
    )


BOXES = Figure("boxes", tuple(ROOMS), make_boxes, _statements())
