"""Section 4.4: how cost grows with the horizon K and the image's side D, beside the paper's
formulas."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure as Drawing

from .. import make
from ..exact import optimal_source
from ..worlds.grid import GridWorld, Map
from ..worlds.world import World
from .workshop import Figure, Finding, Statement, Workshop

if TYPE_CHECKING:
    from ..variational.estimator import Estimator

LISTED = (3, 4, 5, 6, 7)
"""horizons at which all sequences are listed"""
HORIZONS = (5, 10, 20)
SIDES = (10, 20, 40)
FRAMES = 1024
"""observations encoded in one measurement"""
DRAWN = 2048
"""sequences drawn in one measurement"""
REPEATS = 3
SLACK = 1.5
"""how far above linear growth a ratio may lie"""


def room(side: int) -> GridWorld:
    """An empty square room."""
    rows = ["#" * side, *["#" + "." * (side - 2) + "#"] * (side - 2), "#" * side]
    rows[1] = "#a" + rows[1][2:]
    return GridWorld(Map.parse("\n".join(rows), f"room-{side}"))


def make_complexity(shop: Workshop) -> dict[str, Finding]:
    two_rooms = make("two-rooms")
    shop.progress.now("complexity: listing all sequences")
    listing = [_seconds(lambda k=k: optimal_source(two_rooms, two_rooms.start, k)) for k in LISTED]
    drawing = [_per_sequence(shop, k) for k in HORIZONS]
    looking = [_per_frame(shop, side) for side in SIDES]
    shop.table(
        ["what", "parameter", "value", "seconds", "formula"],
        [
            *(
                ["list all sequences", "K", k, t, 5**k]
                for k, t in zip(LISTED, listing, strict=True)
            ),
            *(["draw one sequence", "K", k, t, k] for k, t in zip(HORIZONS, drawing, strict=True)),
            *(["one observation", "D", d, t, d * d] for d, t in zip(SIDES, looking, strict=True)),
        ],
    )
    shop.draw(_drawn(listing, drawing, looking), _caption())
    return {
        "exact": Finding(listing[-1] / listing[-2]),
        "horizon": Finding(None, [drawing[-1] / drawing[0]]),
        "side": Finding(None, [looking[-1] / looking[0]]),
    }


def _seconds(work: Callable[[], object]) -> float:
    """The least of a few tries: what else the machine does only adds to it."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def _per_sequence(shop: Workshop, horizon: int) -> float:
    """Seconds that drawing one sequence from the source takes."""
    shop.progress.now(f"complexity: one sequence at K = {horizon}")
    world = make("two-rooms")
    estimator, view = _untrained(world, horizon), np.asarray(world.observe(world.start))
    estimator.source(view, DRAWN)  # compiles
    return _seconds(lambda: estimator.source(view, DRAWN)) / DRAWN


def _per_frame(shop: Workshop, side: int) -> float:
    """Seconds that the learned value of one observation takes."""
    shop.progress.now(f"complexity: one observation at D = {side}")
    world = room(side)
    estimator = _untrained(world, 5)
    frames = np.repeat(np.asarray(world.observe(world.start))[None], FRAMES, axis=0)
    estimator.empowerment(frames)  # compiles
    return _seconds(lambda: estimator.empowerment(frames)) / FRAMES


def _untrained(world: World, horizon: int) -> "Estimator":
    """Networks of the default sizes as they are before training: their cost is the same."""
    import jax

    from ..variational.config import Config
    from ..variational.estimator import Estimator
    from ..variational.learner import Model
    from ..variational.sequence import Categorical

    config, frames = Config(horizon=horizon), np.asarray(world.observe(world.states()))
    return Estimator(
        Model(config, Categorical(len(world.actions)), frames, key=jax.random.key(0)), config, world
    )


def _caption() -> str:
    return (
        "Measured cost (points) and the paper's formulas through the last point (lines). Left: "
        "listing all N^K "
        "sequences of one state, N = 5, as exact enumeration must. Middle: drawing one sequence "
        "from the "
        "learned source against the horizon K. Right: the learned value of one observation against "
        "the image's side D."
    )


def _drawn(listing: list[float], sequences: list[float], looking: list[float]) -> Drawing:
    drawing = Drawing(figsize=(11, 3.4), layout="constrained")
    parts = (
        (
            LISTED,
            listing,
            lambda k: 5.0**k,
            "horizon K",
            "exact: all sequences of a state",
            "$N^K$",
        ),
        (HORIZONS, sequences, float, "horizon K", "learned: one sequence", "$K$"),
        (
            SIDES,
            looking,
            lambda d: float(d * d),
            "image side D (pixels)",
            "learned: one observation",
            "$D^2$",
        ),
    )
    for ax, (xs, times, formula, label, title, name) in zip(
        drawing.subplots(1, 3), parts, strict=True
    ):
        ax.plot(xs, np.array(times) * 1e3, "o", color="#31688e", label="measured")
        line = np.array([formula(x) for x in xs])
        ax.plot(
            xs,
            times[-1] * 1e3 * line / line[-1],
            "--",
            color="0.4",
            label=f"proportional to {name}",
        )
        ax.set(xlabel=label, ylabel="milliseconds", title=title, yscale="log", xticks=xs)
        ax.legend(fontsize=8)
    return drawing


COMPLEXITY = Figure(
    "complexity",
    (),
    make_complexity,
    (
        Statement(
            "exact",
            "the cost of exact enumeration is exponential in the horizon, O(N^K)",
            f"time at K = {LISTED[-1]} over that at K = {LISTED[-2]} >= 3 (N = 5)",
            lambda f: f.exact is not None and f.exact >= 3,
        ),
        Statement(
            "horizon",
            "the cost of the auto-regressive networks grows at most linearly with the horizon, "
            "O(H²KN)",
            f"time of a sequence at K = 20 over that at K = 5 <= {4 * SLACK:g} (linear: 4)",
            lambda f: max(f.learned) <= 4 * SLACK,
        ),
        Statement(
            "side",
            "the cost of the representation grows at most linearly with the pixels, O(D²)",
            f"time of an observation at D = 40 over that at D = 10 <= {16 * SLACK:g} (linear: 16)",
            lambda f: max(f.learned) <= 16 * SLACK,
        ),
    ),
)
