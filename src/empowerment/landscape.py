"""Landscapes: empowerment at many states, with the grid they lie on, and how well two of them
agree."""

import base64
import io
import json
import os
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .files import write_atomically
from .worlds.grid import COLOURS, GridState
from .worlds.world import Layout, State, World, blocks, identify, leaves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = "empowerment landscape 1"
BLOCK = 1024  # states seen together
LARGEST_FILE = 2**32  # bytes; a file that claims more is refused before anything is read
MARKS = {"key": "k", "door": "d", "box": "b", "lava": "l", "goal": "G", "start": "S", "hole": "H"}


def learned_nats(world: World, see: Callable[[Any], np.ndarray], states: State) -> np.ndarray:
    """Learned empowerment of each state, by what is seen there; 0 where an episode ends, since no
    window starts there that could be learned from."""
    nats = [see(np.asarray(world.observe(some))) for some in blocks(states, BLOCK)]
    return np.where(np.asarray(world.terminal(states)), 0.0, np.concatenate(nats))


@dataclass(frozen=True, eq=False)
class Landscape:
    """Empowerment at many states, in nats. `lower <= nats <= upper` is proved for exact
    landscapes."""

    world: str
    """name of the world"""
    horizon: int | float
    """number of actions in a sequence, K; infinite with feedback and a discount only"""
    states: State
    """batch of n states, in the world's own form"""
    nats: np.ndarray
    """`float64[n]`: empowerment"""
    lower: np.ndarray
    """`float64[n]`: proved lower bound; NaN where nothing is proved, as in learned landscapes"""
    upper: np.ndarray
    """`float64[n]`: proved upper bound; NaN where nothing is proved"""
    layout: Layout | None = None
    """the plane that the states lie on, if the world has one"""
    positions: np.ndarray | None = None
    """`int64[n, 2]`: row and column of each state on the layout"""
    spec: dict[str, Any] | None = None
    """what the world is made from (map, slip, ...), if it can be described"""
    feedback: bool = False
    """whether the agent sees where each action has led before it chooses the next"""
    discount: float = 1.0
    """with feedback: weight of what each further step adds, relative to the one before"""
    source: np.ndarray | None = None
    """`float64[n, actions]`: with feedback, the best distribution of the first action"""

    @staticmethod
    def of(
        world: World,
        horizon: int | float,
        states: State,
        nats: Any,
        lower: Any = np.nan,
        upper: Any = np.nan,
        **feedback: Any,
    ) -> "Landscape":
        """A landscape of this world; without `lower` and `upper` nothing is claimed to be
        proved."""
        nats = np.asarray(nats, np.float64)
        n = len(leaves(states)[0])
        if nats.shape != (n,):
            raise ValueError(
                f"nats has shape {nats.shape} for {n} states; give one number for each state"
            )
        low, high = (
            np.broadcast_to(np.asarray(b, np.float64), nats.shape).copy() for b in (lower, upper)
        )
        positions = None if world.layout is None else np.asarray(world.locate(states), np.int64)
        return Landscape(
            world.name,
            horizon,
            states,
            nats,
            low,
            high,
            layout=world.layout,
            positions=positions,
            spec=world.spec(),
            **feedback,
        )

    def __len__(self) -> int:
        return len(self.nats)

    def __repr__(self) -> str:
        width = float(np.max(self.upper - self.lower, initial=0.0))
        proved = "learned" if np.isnan(width) else f"bounds within {width:.1g} nats"
        values = "no states"
        if len(self):
            values = f"{len(self):,} states, {self.nats.min():.4f} to {self.nats.max():.4f} nats"
        loop = f", feedback, discount {self.discount:g}" if self.feedback else ""
        return f"<Landscape of {self.world!r}, K = {self.horizon}{loop}: {values}, {proved}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers and, where there is a layout, the picture."""
        words = escape(repr(self).strip("<>"))
        if self.layout is None:
            return f"<p>{words}</p>"
        from matplotlib.figure import Figure

        figure, file = Figure(figsize=(5, 3.6), layout="constrained"), io.BytesIO()
        self.plot(figure.add_subplot())
        figure.savefig(file, format="png", dpi=80)
        data = base64.b64encode(file.getvalue()).decode()
        return f'<p>{words}</p><img alt="{words}" src="data:image/png;base64,{data}">'

    @property
    def bits(self) -> np.ndarray:
        """Empowerment in bits."""
        return self.nats / np.log(2)

    def grid(self) -> np.ndarray:
        """`float64[rows, columns]` in nats, NaN where no state is.

        Where several states share a cell (directions of an agent, say) the cell shows the highest
        of them.

        >>> from empowerment import exact, make
        >>> exact(make("two-rooms"), horizon=2).grid().shape
        (20, 20)
        """
        if self.layout is None or self.positions is None:
            raise ValueError(f"world {self.world!r} has no layout; use .nats instead of .grid()")
        picture = np.full(self.layout.shape, -np.inf)
        np.maximum.at(picture, tuple(self.positions.T), self.nats)
        return np.where(np.isinf(picture), np.nan, picture)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        limits: tuple[float, float] | None = None,
        colour_bar: bool = True,
    ) -> "Axes":
        """Draw the landscape: colours in nats, walls dark grey, keys, doors, boxes and lava as
        letters.

        `limits` fixes the two ends of the colours, so that several landscapes can share them.
        """
        import matplotlib.pyplot as plt
        from matplotlib.ticker import MaxNLocator

        grid = self.grid()
        if ax is None:
            ax = plt.figure(layout="constrained").add_subplot()
        low, high = limits if limits is not None else (None, None)
        picture = ax.imshow(grid, cmap="viridis", vmin=low, vmax=high, interpolation="nearest")
        assert self.layout is not None  # grid() has refused a world without one
        _draw_walls(ax, self.layout)
        ax.set(xlabel="column", ylabel="row")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        if colour_bar:
            ax.figure.colorbar(
                picture, cax=ax.inset_axes((1.04, 0, 0.05, 1)), label="empowerment (nats)"
            )
        return ax

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a safetensors file: arrays, and a header of text; reading it back runs no
        code."""
        from safetensors.numpy import save

        parts = {f"state.{i}": np.asarray(x) for i, x in enumerate(leaves(self.states))}
        arrays = {"nats": self.nats, "lower": self.lower, "upper": self.upper, **parts}
        header: dict[str, Any] = {
            "format": FORMAT,
            "world": self.world,
            "horizon": "inf" if np.isinf(self.horizon) else self.horizon,
            "feedback": self.feedback,
            "discount": self.discount,
            "state": type(self.states).__name__ if isinstance(self.states, tuple) else "array",
            "fields": list(getattr(self.states, "_fields", ())),
            "spec": self.spec,
        }
        if self.layout is not None and self.positions is not None:
            arrays |= {"walls": self.layout.walls, "positions": self.positions}
            header["marks"] = [list(mark) for mark in self.layout.marks]
        if self.source is not None:
            arrays["source"] = self.source
        arrays = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
        # Through bytes: safetensors' own writing fails with an error that is no OSError.
        write_atomically(Path(path), save(arrays, metadata={"landscape": json.dumps(header)}))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Landscape":
        """Read what `save` wrote; a ValueError says what is wrong with any other file."""
        try:
            return Landscape._from(path, *_read(Path(path)))
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"landscape {str(path)!r} is damaged ({error}); make it again"
            ) from None

    @staticmethod
    def _from(
        path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> "Landscape":
        parts = [
            arrays[f"state.{i}"] for i in range(sum(name.startswith("state.") for name in arrays))
        ]
        n = arrays["nats"].size
        whole = [arrays[name].shape == (n,) for name in ("nats", "lower", "upper")]
        if (
            not all(whole)
            or len(parts) != max(len(header["fields"]), 1)
            or any(x.shape[:1] != (n,) for x in parts)
        ):
            raise ValueError(
                f"landscape {str(path)!r} has arrays of different lengths; it is damaged, make it "
                "again"
            )
        states = _states(header["state"], header["fields"], parts)
        layout = positions = None
        if {"walls", "positions"} <= set(arrays) and arrays["walls"].ndim == 2:
            walls, positions = arrays["walls"], arrays["positions"]
            shape = (int(walls.shape[0]), int(walls.shape[1]))
            if positions.shape != (n, 2) or (positions < 0).any() or (positions >= shape).any():
                raise ValueError(
                    f"landscape {str(path)!r} has states outside its walls; it is damaged, make it "
                    "again"
                )
            layout = Layout(
                shape, walls, tuple((str(k), int(r), int(c)) for k, r, c in header["marks"])
            )
        values = (arrays["nats"], arrays["lower"], arrays["upper"])
        place: dict[str, Any] = {
            "layout": layout,
            "positions": positions,
            "spec": header.get("spec"),
            "feedback": bool(header.get("feedback", False)),
            "discount": float(header.get("discount", 1.0)),
            "source": arrays.get("source"),
        }
        horizon = float("inf") if header["horizon"] == "inf" else int(header["horizon"])
        return Landscape(header["world"], horizon, states, *values, **place)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ValueError(f"landscape {str(path)!r} does not exist; check the path")
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(
            f"landscape {str(path)!r} is larger than {LARGEST_FILE // 2**30} GiB; make a smaller "
            "one"
        )
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("landscape", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(
            f"file {str(path)!r} is not a landscape ({error}); give one that .save wrote"
        ) from None
    expected = {"world", "horizon", "state", "fields"} <= set(header) and {
        "nats",
        "lower",
        "upper",
    } <= set(arrays)
    if header.get("format") != FORMAT or not expected:
        raise ValueError(f"file {str(path)!r} is not a landscape; give one that .save wrote")
    return header, arrays


def _states(name: str, fields: list[str], parts: list[np.ndarray]) -> State:
    """Arrays in the form they had: alone, or as a named tuple (a world's own type where it is a
    grid's)."""
    if not fields:
        return parts[0]
    if tuple(fields) == GridState._fields:
        return GridState(*parts)
    return namedtuple(name, fields, rename=True)(*parts)


def _draw_walls(ax: "Axes", layout: Layout) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patheffects import withStroke

    walls = np.where(layout.walls, 1.0, np.nan)
    ax.imshow(walls, cmap=ListedColormap(["0.25"]), vmin=0, vmax=1, interpolation="nearest")
    lava = np.full(layout.shape, np.nan)
    for kind, row, column in layout.marks:
        lava[row, column] = 1.0 if kind == "lava" else np.nan
    red = ListedColormap([np.array(COLOURS["lava"]) / 255])
    # Beneath the values: lava that agents can come to has some.
    ax.imshow(lava, cmap=red, vmin=0, vmax=1, interpolation="nearest", zorder=-1)
    for kind, row, column in layout.marks:
        outline = [withStroke(linewidth=2, foreground="black")]
        text = {
            "ha": "center",
            "va": "center",
            "fontsize": 8,
            "fontweight": "bold",
            "color": "white",
        }
        ax.text(column, row, MARKS.get(kind, kind), path_effects=outline, **text)


@dataclass(frozen=True)
class Comparison:
    """How a learned landscape agrees with the exact one; errors are in nats."""

    pearson: float
    """correlation coefficient; NaN where either landscape is constant"""
    r2: float
    """1 - Σ(learned - exact)² / Σ(exact - mean exact)², without rescaling; NaN where exact is
    constant"""
    bias: float
    """mean of learned - exact"""
    max_error: float
    """largest |learned - exact|"""
    rms: float
    """root mean square of learned - exact"""
    argmax_agrees: bool
    """exact empowerment at the learned maximum lies within 0.01 nats of the true maximum"""
    constant: bool
    """the exact landscape is constant, so that `pearson` and `r2` are not defined"""

    def __repr__(self) -> str:
        return f"<Comparison: {self}>"

    def __str__(self) -> str:
        fit = (
            "exact landscape is constant, so R² is not defined"
            if self.constant
            else f"R² {self.r2:.4f}"
        )
        same = "the same maximum" if self.argmax_agrees else "another maximum"
        return (
            f"{fit}, Pearson {self.pearson:.4f}, bias {self.bias:+.4f}, RMS {self.rms:.4f}, "
            f"largest error {self.max_error:.4f} nats, {same}"
        )


def compare(learned: Landscape, exact: Landscape) -> Comparison:
    """Agreement of two landscapes over the same states (section 5.1 of the paper reports Pearson
    and R²).

    >>> from empowerment import exact, make
    >>> land = exact(make("two-rooms"), horizon=2)
    >>> compare(land, land).r2
    1.0
    """
    if learned.horizon != exact.horizon:
        raise ValueError(
            f"the landscapes have horizons {learned.horizon} and {exact.horizon}; compare at one "
            "horizon"
        )
    if (learned.feedback, learned.discount) != (exact.feedback, exact.discount):
        raise ValueError(
            f"the landscapes have feedback={learned.feedback} with discount={learned.discount} and "
            f"feedback={exact.feedback} with discount={exact.discount}; compare the same quantity"
        )
    if len(learned) != len(exact):
        raise ValueError(
            f"the landscapes have {len(learned)} and {len(exact)} states; compare over the same "
            "states"
        )
    ours, theirs = identify(learned.states), identify(exact.states)
    if ours.dtype != theirs.dtype or not np.array_equal(ours, theirs):
        raise ValueError(
            "the landscapes have different states; make both with the same states=, in the same "
            "order"
        )
    truth, error = exact.nats, learned.nats - exact.nats
    spread = truth - truth.mean()
    # Counts of equal size differ in their last digits only by the mean's rounding.
    constant = bool(np.ptp(truth) < 1e-12)
    flat = constant or bool(np.ptp(learned.nats) < 1e-12)
    return Comparison(
        pearson=float("nan") if flat else float(np.corrcoef(learned.nats, truth)[0, 1]),
        r2=float("nan") if constant else float(1 - (error**2).sum() / (spread**2).sum()),
        bias=float(error.mean()),
        max_error=float(np.abs(error).max()),
        rms=float(np.sqrt((error**2).mean())),
        argmax_agrees=bool(truth[learned.nats.argmax()] >= truth.max() - 0.01),
        constant=constant,
    )
