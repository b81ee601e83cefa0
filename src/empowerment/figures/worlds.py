"""Pictures of worlds: what the agent sees, at a viewable size, with a legend of what it can do."""

from pathlib import Path

import numpy as np

from ..worlds.grid import COLOURS, GridWorld
from ..worlds.table import TableWorld
from ..worlds.world import World

LEGEND = {"#": "wall", "a": "agent", "b": "box", "k": "key", "d": "door", "l": "lava"}


def draw_world(world: World, path: Path) -> None:
    """Draw the start of a world to a picture file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
    if isinstance(world, GridWorld):
        _draw_grid(axes, world)
    elif len(world.observation_shape) == 3:
        _draw_seen(axes, world)
    elif isinstance(world, TableWorld):
        _draw_table(axes, world)
    else:
        _draw_other(axes, world)
    axes.set_title(f"{world.name}: {', '.join(world.actions)}", fontsize=8, wrap=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_grid(axes, world: GridWorld) -> None:
    from matplotlib.patches import Patch

    _draw_seen(axes, world)
    kinds = [kind for symbol, kind in LEGEND.items() if (world.map.cells == symbol).any()]
    handles = [
        Patch(facecolor="#{:02x}{:02x}{:02x}".format(*COLOURS[kind]), label=kind) for kind in kinds
    ]
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8)


def _draw_seen(axes, world: World) -> None:
    axes.imshow(np.asarray(world.observe(world.start)))
    axes.set_xlabel("column (cells)")
    axes.set_ylabel("row (cells)")
    axes.locator_params(integer=True)


def _draw_other(axes, world: World) -> None:
    """The world's own picture, or what is seen at the start as bars."""
    picture = world.picture(world.start)
    if picture is not None:
        axes.imshow(picture)
        axes.set(xticks=[], yticks=[])
        return
    seen = np.asarray(world.observe(world.start))
    axes.bar(np.arange(len(seen)), seen)
    axes.set(xlabel="number in the observation", ylabel="value at the start")


def _draw_table(axes, world: TableWorld) -> None:
    places = world.locate(world.states()) if world.layout is not None else None
    if places is None:
        places = np.stack([np.zeros(world.size, int), np.arange(world.size)], axis=1)
    for state in range(world.size):
        for action in range(len(world.actions)):
            for to in world.successors[state, action]:
                (r1, c1), (r2, c2) = places[state], places[to]
                if (r1, c1) != (r2, c2):
                    axes.annotate(
                        "", (c2, r2), (c1, r1), arrowprops={"arrowstyle": "->", "color": "0.5"}
                    )
    axes.scatter(
        places[:, 1], places[:, 0], s=120, color=np.array(COLOURS["agent"]) / 255, zorder=2
    )
    axes.set_xlabel("level (actions taken)")
    axes.set_ylabel("height (nodes)")
    axes.invert_yaxis()
