"""Episodes drawn: filmstrips with a bar for every action, as in the paper's maze figure, and videos
(section 5.2)."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..behaviour.episode import Episode
from ..worlds.scene import scene
from ..worlds.world import World, take

WIDTH = 2.6  # inches of one panel
SMALLEST_CELL = 16  # pixels of a cell in a video
MOST_FRAMES = 500
"""Pictures of a video, which are held together in memory; of longer episodes every second, third,
... step is shown."""
VIDEO_SIDE = 480  # pixels of its longer side, at least
SHORT = {"up": "↑", "down": "↓", "left": "←", "right": "→", "stay": "•", "pick up": "pick"}


def filmstrip(
    world: World, episode: Episode, every: int | None = None, panels: int = 8, columns: int = 4
) -> Figure:
    """The world at chosen times with the path so far; below each, what was expected of every
    action, the chosen black.

    Times are every `every` steps from the start, or close together at first and then wider apart,
    which suits episodes that settle down.
    """
    times, bars = _times(episode.steps, every, panels), episode.expected is not None
    columns = min(columns, len(times))
    rows, parts = -(-len(times) // columns), 1 + bars
    height = min(max(WIDTH * _aspect(world, episode), 0.6), 2 * WIDTH)
    figure = Figure(
        figsize=(WIDTH * columns + 0.4, (height + 0.4 + 1.6 * bars) * rows), layout="constrained"
    )
    axes = figure.subplots(
        rows * parts, columns, squeeze=False, height_ratios=[height, 1.2][:parts] * rows
    )
    for ax in axes.ravel():
        ax.set_axis_off()
    for i, t in enumerate(times):
        row, column = divmod(i, columns)
        _panel(axes[row * parts, column], world, episode, t)
        if bars and t < episode.steps:
            _bars(axes[row * parts + 1, column], episode, t, labelled=column == 0)
    if bars:
        figure.supxlabel(_legend(episode), fontsize=8)
    return figure


def _aspect(world: World, episode: Episode) -> float:
    rows, columns, _ = scene(world, take(episode.states, 0)).shape
    return rows / columns


def _legend(episode: Episode) -> str:
    bricks = any(name.startswith("brick") for name in episode.names)
    return (
        "bars: expected empowerment of every action, the chosen one "
        f"black{'; ▪: lay a brick' if bricks else ''}"
    )


def _times(steps: int, every: int | None, panels: int) -> list[int]:
    if every is not None:
        if every < 1:
            raise ValueError(f"every={every} is not a number of steps; give 1 or more")
        return list(range(0, steps + 1, every))[:panels]
    spread = np.round(np.geomspace(1, steps + 1, panels)).astype(int) - 1
    # Rounding repeats the first few times; the earliest steps left out take their places.
    spare = [t for t in range(steps + 1) if t not in spread]
    chosen = np.unique(spread).tolist()
    return sorted(chosen + spare[: panels - len(chosen)])


def _panel(ax: Axes, world: World, episode: Episode, time: int) -> None:
    ax.imshow(scene(world, take(episode.states, time)), interpolation="nearest")
    if episode.path is not None and _on_the_plane(world, episode):
        so_far = episode.path[: time + 1]
        ax.plot(so_far[:, 1], so_far[:, 0], color="black", linewidth=1.2, alpha=0.7)
        ax.plot(so_far[-1, 1], so_far[-1, 0], "o", color="black", markersize=2.5)
    ax.set_axis_on()
    ax.set(xticks=[], yticks=[])
    dead = not episode.alive and time == episode.steps
    ax.set_title(
        f"step {time}: {'ended' if dead else f'{episode.empowerment[time]:.2f} nats'}", fontsize=8
    )


def _bars(ax: Axes, episode: Episode, time: int, labelled: bool) -> None:
    assert episode.expected is not None  # the caller asks for bars only where there are some
    values, labels = episode.expected[time], [_short(name) for name in episode.names]
    colours = ["black" if a == episode.chosen[time] else "0.75" for a in range(len(values))]
    ax.set_axis_on()
    ax.bar(range(len(values)), np.nan_to_num(values), color=colours, edgecolor="0.3", linewidth=0.5)
    seen = episode.expected[np.isfinite(episode.expected)]
    low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 1.0)
    ax.set_ylim(min(low, 0), max(high, 0) * 1.08 + 1e-9)
    ax.set_xticks(range(len(values)), labels, fontsize=7)
    ax.tick_params(axis="y", labelsize=6)
    if labelled:
        ax.set_ylabel("nats", fontsize=7)


def _short(action: str) -> str:
    """A label that fits under a bar: arrows for moves, a brick before the direction it is laid
    in."""
    if action.startswith("brick "):
        return f"▪{SHORT[action.removeprefix('brick ')]}"
    return SHORT.get(action, action)


def video(world: World, episode: Episode, path: str | Path, fps: int = 5) -> None:
    """Write what the agent saw as an animated GIF, each cell a square; the last picture stays for a
    second."""
    from PIL import Image

    times = [*range(0, episode.steps, -(-episode.steps // MOST_FRAMES) or 1), episode.steps]

    def frames() -> Iterator[Image.Image]:
        for t in times:
            yield Image.fromarray(_enlarged(scene(world, take(episode.states, t))))

    rest = frames()
    durations = [1000 // fps] * (len(times) - 1) + [1000]
    next(rest).save(
        path, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0
    )


def _enlarged(scene: np.ndarray) -> np.ndarray:
    """Cells as squares of pixels."""
    if max(scene.shape[:2]) >= VIDEO_SIDE // 2:
        return scene  # no cells, but a picture
    cell = max(SMALLEST_CELL, VIDEO_SIDE // max(scene.shape[:2]))
    return scene.repeat(cell, axis=0).repeat(cell, axis=1)


def _on_the_plane(world: World, episode: Episode) -> bool:
    """Whether pictures have one pixel for each cell of the layout, so that a path can be drawn on
    them."""
    return (
        world.layout is not None
        and scene(world, take(episode.states, 0)).shape[:2] == world.layout.shape
    )


def save_episode(world: World, episode: Episode, directory: Path, every: int | None = None) -> None:
    """Write an episode to a directory: its summary as JSON, its filmstrip and its video."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "episode.json").write_text(json.dumps(episode.summary()))
    figure = filmstrip(world, episode, every)
    for kind in ("png", "pdf"):
        figure.savefig(directory / f"filmstrip.{kind}", dpi=150)
    video(world, episode, directory / "video.gif")
