"""The tree of appendix A: how many paths lead to each node, and why the optimal source visits all
ends equally."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..capacity import capacity
from ..channel import channel
from ..exact import ends, exact, optimal_source
from ..worlds.table import tree
from .workshop import Figure as Plan
from .workshop import Finding, Statement, Workshop

UP, DOWN = "#0072b2", "#d55e00"


def draw_tree(depth: int = 5) -> Figure:
    """Nodes with n(s', s), the number of paths to each; beside it how often two sources visit each
    end."""
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
        reached, paths = (
            ends(world, world.start, level) if level else (np.array([0]), np.array([1]))
        )
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
    ax.barh(
        heights - 0.35,
        source.end_distribution(),
        0.7,
        color="#009e73",
        hatch="//",
        label="optimal, 1/n(a, s)",
    )
    ax.set(
        xlabel="probability of the end state",
        ylabel="end state (ups minus downs)",
        yticks=heights,
        ylim=(-depth - 1, depth + 3.2),  # room for the legend
        title=f"ends after K = {depth} actions",
    )
    ax.legend(loc="upper right", frameon=False)


def make_tree(shop: Workshop) -> dict[str, Finding]:
    """Paths to each end, how often two sources visit it, and empowerment by counting and by
    capacity."""
    depth = shop.figure.horizon
    world = tree(depth)
    source = optimal_source(world, world.start, depth)
    _, paths = ends(world, world.start, depth)
    uniform, optimal = paths / paths.sum(), source.end_distribution()
    heights = depth - world.locate(source.end_states)[:, 0]
    shop.draw(
        draw_tree(depth),
        f"The tree of appendix A, {depth} actions deep. Left: nodes with the number of paths from "
        "the root to each. "
        "Right: how often a source that is uniform over sequences visits each end, and the optimal "
        "source, "
        "proportional to 1/n(a, s), which visits all equally.",
    )
    shop.table(
        ["end_ups_minus_downs", "paths", "probability_uniform", "probability_optimal"],
        [
            list(row)
            for row in zip(
                heights.tolist(), paths.tolist(), uniform.tolist(), optimal.tolist(), strict=True
            )
        ],
    )
    counted = float(exact(world, depth, world.start).nats[0])
    found = capacity(channel(world, world.start, depth)[0].matrix).nats
    return {
        "uneven": Finding(float(np.abs(uniform - 1 / len(paths)).max())),
        "even": Finding(float(np.abs(optimal - 1 / len(paths)).max())),
        "count": Finding(abs(counted - found)),
    }


TREE = Plan(
    "tree",
    (),
    make_tree,
    (
        Statement(
            "uneven",
            "an agent that chooses its actions uniformly does not visit the end states uniformly",
            "largest |p(s') - 1/n| > 0.05",
            lambda f: f.exact is not None and f.exact > 0.05,
        ),
        Statement(
            "even",
            "an agent that follows the optimal source visits all end states uniformly",
            "largest |p(s') - 1/n| < 1e-12",
            lambda f: f.exact is not None and f.exact < 1e-12,
        ),
        Statement(
            "count",
            "empowerment of a deterministic world is ln n(s), the number of end states",
            "|ln n(s) - capacity| < 1e-8 nats",
            lambda f: f.exact is not None and f.exact < 1e-8,
        ),
    ),
)
