"""The tree of appendix A: how many paths lead to each node, and why the optimal source visits all ends equally."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..exact import ends, optimal_source
from ..worlds.table import tree

UP, DOWN = "#0072b2", "#d55e00"


def draw_tree(depth: int = 5) -> Figure:
    """Nodes with n(s', s), the number of paths to each; beside it how often two sources visit each end."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    _draw_nodes(left, depth)
    _draw_sources(right, depth)
    return figure


def _draw_nodes(ax: Axes, depth: int) -> None:
    world = tree(depth)
    places = world.locate(np.arange(world.size))
    heights = depth - places[:, 0]
    for node in range(world.size):
        for action, colour, style in ((0, UP, "-"), (1, DOWN, "--")):
            child = world.successors[node, action, 0]
            if child != node:
                x, y = (places[node, 1], places[child, 1]), (heights[node], heights[child])
                ax.plot(x, y, color=colour, linestyle=style, linewidth=1.4, zorder=1)
    for level in range(depth + 1):
        reached, paths = ends(world, world.start, level) if level else (np.array([0]), np.array([1]))
        for node, count in zip(reached, paths, strict=True):
            x, y = int(places[node, 1]), int(heights[node])
            ax.plot(x, y, "o", markersize=19, color="white", markeredgecolor="black", zorder=2)
            ax.text(x, y, str(count), ha="center", va="center", fontsize=9, zorder=3)
    ax.plot([], [], color=UP, label="up")
    ax.plot([], [], color=DOWN, linestyle="--", label="down")
    ax.legend(loc="upper left", frameon=False)
    ax.set(
        xlabel="actions taken",
        ylabel="ups minus downs",
        title="paths from the root to each node, n(s', s)",
        xticks=range(depth + 1),
    )
    ax.margins(0.07)


def _draw_sources(ax: Axes, depth: int) -> None:
    world = tree(depth)
    source = optimal_source(world, world.start, depth)
    _, paths = ends(world, world.start, depth)
    heights = depth - world.locate(source.end_states)[:, 0]
    ax.barh(heights + 0.35, paths / paths.sum(), 0.7, color="0.6", label="uniform over sequences")
    ax.barh(heights - 0.35, source.end_distribution(), 0.7, color="#009e73", hatch="//", label="optimal, 1/n(a, s)")
    ax.set(
        xlabel="probability of the end state",
        ylabel="end state (ups minus downs)",
        yticks=heights,
        ylim=(-depth - 1, depth + 3.2),  # room for the legend
        title=f"ends after K = {depth} actions",
    )
    ax.legend(loc="upper right", frameon=False)
