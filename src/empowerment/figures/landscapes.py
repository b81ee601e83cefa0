"""Landscapes side by side: figures 3 to 5 of the paper."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ..landscape import Landscape

WIDTH = 3.4  # inches of one landscape


def draw_landscapes(
    landscapes: Sequence[Landscape],
    titles: Sequence[str] | None = None,
    *,
    shared: bool = False,
    columns: int = 4,
) -> Figure:
    """Landscapes in rows of at most `columns`; `shared` gives all of them the same colours and one
    colour bar."""
    titles = [f"{x.world}, K = {x.horizon}" for x in landscapes] if titles is None else titles
    columns = min(columns, len(landscapes))
    rows = -(-len(landscapes) // columns)
    tallest = max(x.grid().shape[0] / x.grid().shape[1] for x in landscapes)
    figure = Figure(
        figsize=(WIDTH * columns, (0.62 * WIDTH * tallest + 0.9) * rows), layout="constrained"
    )
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    limits = _limits(landscapes) if shared else None
    for ax, land, title in zip(axes, landscapes, titles, strict=False):
        land.plot(ax, limits=limits, colour_bar=not shared)
        ax.set_title(title)
    for ax in axes[len(landscapes) :]:
        ax.set_axis_off()
    if shared:
        last = axes[min(columns, len(landscapes)) - 1]
        bar = last.inset_axes((1.06, 0, 0.06, 1))
        figure.colorbar(last.images[0], cax=bar, label="empowerment (nats)")
    return figure


def save_landscape(landscape: Landscape, directory: Path, name: str = "landscape") -> None:
    """Write a landscape to a directory, with its picture where the world has a layout."""
    directory.mkdir(parents=True, exist_ok=True)
    landscape.save(directory / f"{name}.safetensors")
    if landscape.layout is not None:
        figure = draw_landscapes([landscape])
        for kind in ("png", "pdf"):
            figure.savefig(directory / f"{name}.{kind}", dpi=200)


def _limits(landscapes: Sequence[Landscape]) -> tuple[float, float]:
    values = np.concatenate([x.nats for x in landscapes])
    return float(values.min()), float(values.max())
