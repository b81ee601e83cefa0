"""Section 5.1: exact and learned empowerment of the three static rooms, side by side, and their
scatter plot."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from .. import make
from ..landscape import Comparison, Landscape, compare
from .workshop import Figure as Plan
from .workshop import Finding, Statement, Workshop

ROOMS = ("open-room", "cross-room", "two-rooms")


def draw_static(exact: Sequence[Landscape], learned: Sequence[Landscape] = ()) -> Figure:
    """Heat maps of each room, exact above learned, and beside them learned against exact for the
    last room."""
    rows, columns = (2 if learned else 1), len(exact)
    figure = Figure(
        figsize=(3.1 * columns + (4.2 if learned else 0), 2.9 * rows), layout="constrained"
    )
    grid = figure.add_gridspec(rows, columns + (2 if learned else 0))
    for i, land in enumerate(exact):
        pair = [land, learned[i]] if learned else [land]
        limits = (min(x.nats.min() for x in pair), max(x.nats.max() for x in pair))
        for row, (one, kind) in enumerate(zip(pair, ("exact", "learned"), strict=False)):
            axes = figure.add_subplot(grid[row, i])
            one.plot(axes, limits=(float(limits[0]), float(limits[1])))
            axes.set_title(f"{land.world}, {kind}", fontsize=9)
    if learned:
        scatter(figure.add_subplot(grid[:, columns:]), learned[-1], exact[-1])
    return figure


def scatter(axes, learned: Landscape, exact: Landscape) -> None:
    """Learned against exact empowerment, one point for each state."""
    fit = compare(learned, exact)
    axes.plot(exact.nats, learned.nats, "o", markersize=3, alpha=0.5)
    ends = np.array([exact.nats.min(), exact.nats.max()])
    axes.plot(ends, ends, color="0.3", linewidth=1, label="learned = exact")
    axes.set(
        xlabel="exact empowerment (nats)", ylabel="learned empowerment ψ/β (nats)", aspect="equal"
    )
    axes.set_title(f"{exact.world}: Pearson {fit.pearson:.4f}, R² {fit.r2:.4f}", fontsize=9)
    axes.legend(loc="upper left", fontsize=8)


def make_static(shop: Workshop) -> dict[str, Finding]:
    """Exact and learned landscapes of the three rooms, their agreement, and the claims on it."""
    truths, firsts, rows, findings = [], [], [], {}
    for name in ROOMS:
        truth = shop.exact(make(name))
        learned = [estimator.landscape() for estimator in shop.trained(name)]
        fits = [compare(land, truth) for land in learned]
        truths.append(truth)
        firsts.append(learned[0])
        rows += [[name, seed, *fit_row(fit)] for seed, fit in enumerate(fits)]
        findings |= {
            f"{name} pearson": Finding(None, [fit.pearson for fit in fits]),
            f"{name} r2": Finding(None, [fit.r2 for fit in fits]),
            f"{name} maximum": Finding(
                float(truth.nats.max()), [float(truth.nats[land.nats.argmax()]) for land in learned]
            ),
        }
    shop.draw(
        draw_static(truths, firsts),
        f"Empowerment of every location in three rooms, K = {shop.figure.horizon}: exact "
        "(counting) above, learned "
        "from 20 x 20 pixels below; right, learned against exact in two-rooms. Values in nats.",
    )
    shop.table(["world", "seed", *FIT_HEADER], rows)
    return findings


FIT_HEADER = ("pearson", "r2", "bias_nats", "rms_nats", "max_error_nats", "argmax_agrees")


def fit_row(fit: Comparison) -> list:
    """A comparison as the cells of a table."""
    return [fit.pearson, fit.r2, fit.bias, fit.rms, fit.max_error, fit.argmax_agrees]


def _statements(name: str) -> tuple[Statement, ...]:
    return (
        Statement(
            f"{name} pearson",
            f"{name}: learned values agree with exact ones (the paper: correlation 1.00 in "
            "two-rooms)",
            "median Pearson >= 0.995",
            lambda f: float(np.median(f.learned)) >= 0.995,
        ),
        Statement(
            f"{name} r2",
            f"{name}: learned values are close to exact ones (the paper: R² 0.90 in two-rooms)",
            "median R² >= 0.99, worst >= 0.97",
            lambda f: float(np.median(f.learned)) >= 0.99 and min(f.learned) >= 0.97,
        ),
        Statement(
            f"{name} maximum",
            f"{name}: the maximum is in the same place, so that agents behave alike",
            "exact empowerment at the learned maximum within 0.01 nats of the highest",
            lambda f: f.exact is not None and min(f.learned) >= f.exact - 0.01,
        ),
    )


STATIC = Plan("static", ROOMS, make_static, tuple(s for name in ROOMS for s in _statements(name)))
