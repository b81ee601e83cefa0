"""Section 5.1: exact and learned empowerment of the three static rooms, side by side, and their scatter plot."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ..landscape import Landscape, compare


def draw_static(exact: Sequence[Landscape], learned: Sequence[Landscape] = ()) -> Figure:
    """Heat maps of each room, exact above learned, and beside them learned against exact for the last room."""
    rows, columns = (2 if learned else 1), len(exact)
    figure = Figure(figsize=(3.1 * columns + (4.2 if learned else 0), 2.9 * rows), layout="constrained")
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
    axes.set(xlabel="exact empowerment (nats)", ylabel="learned empowerment ψ/β (nats)", aspect="equal")
    axes.set_title(f"{exact.world}: Pearson {fit.pearson:.4f}, R² {fit.r2:.4f}", fontsize=9)
    axes.legend(loc="upper left", fontsize=8)
