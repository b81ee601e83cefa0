"""Open and closed loop side by side: a slippery map, a windy bridge, and value and time against the
horizon."""

import time

import numpy as np
from matplotlib.figure import Figure as Drawing

from .. import exact, make
from ..behaviour import Greedy, exact_value, run_episodes
from ..behaviour.value import Value
from ..landscape import Landscape
from ..worlds.world import World
from .workshop import Figure, Finding, Statement, Workshop

HORIZONS = (1, 3, 10, 30, 100, 300, 1000)
OPEN_HORIZONS = (1, 2, 3, 4, 5)
EPISODES, STEPS = 100, 60
GROWTH = 1.3
"""How far the time per step at the longest horizon may lie above that at a tenth of it."""


def make_feedback(shop: Workshop) -> dict[str, Finding]:
    slippery, bridge = make("two-rooms", slip=0.1), make("windy-bridge")
    shop.progress.now("feedback: landscapes")
    pairs = [(exact(w, k), exact(w, k, feedback=True)) for w, k in ((slippery, 5), (bridge, 5))]
    shop.progress.now("feedback: crossing the bridge")
    crossed = [crossings(bridge, exact_value(bridge, 5, loop)) for loop in (False, True)]
    shop.progress.now("feedback: long horizons")
    means, seconds = zip(*[_timed(slippery, k) for k in HORIZONS], strict=True)
    open_means = [float(exact(slippery, k).nats.mean()) for k in OPEN_HORIZONS]
    shop.table(
        ["world", "loop", "horizon", "mean nats", "seconds", "crossed of 100", "fallen of 100"],
        [
            *(
                ["windy-bridge", name, 5, float(land.nats.mean()), "", across, fallen]
                for name, land, (across, fallen) in zip(
                    ("open", "closed"), pairs[1], crossed, strict=True
                )
            ),
            *(
                ["two-rooms, slip 0.1", "open", k, mean, "", "", ""]
                for k, mean in zip(OPEN_HORIZONS, open_means, strict=True)
            ),
            *(
                ["two-rooms, slip 0.1", "closed", k, mean, spent, "", ""]
                for k, mean, spent in zip(HORIZONS, means, seconds, strict=True)
            ),
        ],
    )
    shop.draw(_drawn(pairs, open_means, means, seconds), _caption(crossed))
    least = min(float((closed.upper - open_.lower).min()) for open_, closed in pairs)
    return {
        "above": Finding(least),
        "crossed": Finding(crossed[1][0] - crossed[0][0]),
        "linear": Finding((seconds[-1] / HORIZONS[-1]) / (seconds[-3] / HORIZONS[-3])),
    }


def crossings(world: World, value: Value) -> tuple[int, int]:
    """How many of 100 greedy agents end beyond the bridge, and how many fall."""
    greedy = Greedy(world, value)
    starts = np.full(EPISODES, world.start)
    ends = np.array([e.states[-1] for e in run_episodes(world, greedy, starts, STEPS)])
    fallen = np.asarray(world.terminal(ends))
    assert world.layout is not None  # the bridge is on a map
    beyond = world.locate(ends)[:, 1] > max(column for _, _, column in world.layout.marks)
    return int((beyond & ~fallen).sum()), int(fallen.sum())


def _timed(world: World, horizon: int) -> tuple[float, float]:
    """Mean empowerment with feedback, and the seconds that it takes."""
    begin = time.perf_counter()
    mean = float(exact(world, horizon, feedback=True).nats.mean())
    return mean, time.perf_counter() - begin


def _caption(crossed: list[tuple[int, int]]) -> str:
    (open_, open_fallen), (closed, fallen) = crossed
    return (
        "Exact empowerment without feedback (open loop) and with feedback (closed loop), K = 5. "
        "Above: two rooms where one move in ten is random. Below: a bridge over lava (l) with side "
        f"wind. Of 100 greedy agents that start on the left, {open_} cross it and {open_fallen} "
        f"fall on open-loop values; {closed} cross and {fallen} fall on closed-loop values. Right: "
        "mean over the slippery rooms against the horizon, and the seconds it takes."
    )


def _drawn(
    pairs: list[tuple[Landscape, Landscape]],
    open_means: list[float],
    means: tuple[float, ...],
    seconds: tuple[float, ...],
) -> Drawing:
    drawing = Drawing(figsize=(12, 6.4), layout="constrained")
    axes = drawing.subplots(2, 3)
    names = ("two rooms, slip 0.1", "windy bridge")
    for row, name, (open_, closed) in zip(axes, names, pairs, strict=True):
        open_.plot(row[0])
        closed.plot(row[1])
        row[0].set_title(f"{name}: open loop, K = 5")
        row[1].set_title(f"{name}: closed loop, K = 5")
    value, spent = axes[:, 2]
    value.plot(HORIZONS, means, "o-", color="#31688e", label="closed loop")
    value.plot(OPEN_HORIZONS, open_means, "s-", color="#d95f02", label="open loop")
    value.set(
        xlabel="horizon K", ylabel="mean empowerment (nats)", title="value against the horizon"
    )
    value.set(xscale="log", yscale="log")
    value.legend()
    spent.plot(HORIZONS, seconds, "o", color="#31688e", label="measured")
    line = np.array(HORIZONS) * seconds[-1] / HORIZONS[-1]
    spent.plot(HORIZONS, line, "--", color="0.4", label="proportional to K")
    spent.set(xlabel="horizon K", ylabel="seconds", title="time against the horizon")
    spent.set(xscale="log", yscale="log")
    spent.legend()
    return drawing


FEEDBACK = Figure(
    "feedback",
    (),
    make_feedback,
    (
        Statement(
            "above",
            "empowerment with feedback is nowhere below empowerment without",
            "least difference of bounds over both maps >= -1e-8 nats",
            lambda f: f.exact is not None and f.exact >= -1e-8,
        ),
        Statement(
            "crossed",
            "a greedy agent crosses the windy bridge on closed-loop values and not on open-loop "
            "ones",
            "crossings of 100 with feedback minus those without >= 95",
            lambda f: f.exact is not None and f.exact >= 95,
        ),
        Statement(
            "linear",
            "the cost of exact empowerment with feedback is linear in the horizon",
            f"seconds a step at K = {HORIZONS[-1]} over those at K = {HORIZONS[-3]} <= {GROWTH:g}",
            lambda f: f.exact is not None and f.exact <= GROWTH,
        ),
    ),
)
