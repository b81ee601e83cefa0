"""Section 5.3, predator and prey: empowerment is low near the predator, so that a greedy agent
keeps away from it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from ..behaviour import Choice, Episode, Greedy, Random, Value, run_episodes
from ..behaviour.greedy import steepest
from ..landscape import Landscape
from ..worlds.predator_prey import ARENA, RADIUS, ROOM, Bodies, PredatorPrey, at_rest
from .episode import video
from .workshop import Figure, Finding, Statement, Workshop, all_at_least, all_at_most

if TYPE_CHECKING:
    from ..variational.estimator import Estimator

HORIZON = 3
PLACES = ((0.0, 0.0), (-0.7, -0.7), (0.7, 0.2), (-1.0, 0.9))
"""Where the predator is in the landscapes."""
FROM_WALLS = 0.45
"""Metres from the walls at which places are compared by their distance to the predator only."""
RUNS, STEPS = 20, 200
PANELS, TRACE = 6, 30
RESAMPLES = 2000


class Shape(NamedTuple):
    """What a landscape around a resting predator looks like."""

    spearman: float
    """rank correlation of empowerment and distance, within reach and away from the walls"""
    lowest: float
    """metres from the predator to the place of least empowerment among those away from the walls"""
    slope_beyond: float
    """nats that empowerment rises by beyond reach, over its rise within"""
    drop: float
    """nats by which places at the walls lie below those away from them, all beyond the predator's
    reach"""


class Still(Random):
    """No force at all."""

    def __call__(self, states: Bodies, rng: np.random.Generator) -> Choice:
        return Choice(np.zeros((len(states.caught), 1, 2), np.float32))


class Fleeing(Random):
    """Straight away from the predator: the hand-written reference."""

    def __call__(self, states: Bodies, rng: np.random.Generator) -> Choice:
        way = np.asarray(states.agent)[:, :2] - np.asarray(states.predator)[:, :2]
        length = np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-9)
        return Choice((way / length)[:, None].astype(np.float32))


def reach(world: PredatorPrey, horizon: int) -> float:
    """Metres within which the predator, from rest, can touch an agent that stays where it is, by
    simulation."""
    state = at_rest(np.array([ROOM, ROOM]), np.array([-ROOM, -ROOM]))
    begin = state.predator[:2]
    for _ in range(horizon):
        state = world.step(state, np.zeros(2), np.zeros(4))
    return float(np.linalg.norm(state.predator[:2] - begin) + 2 * RADIUS)


def shape(land: Landscape, predator: np.ndarray, within: float) -> Shape:
    """How empowerment depends on the distance to the predator, and on the walls."""
    from scipy.stats import spearmanr

    places = np.asarray(land.states.agent)[:, :2]
    distance = np.linalg.norm(places - predator, axis=1)
    inside = ARENA - np.abs(places).max(axis=1) >= FROM_WALLS
    near, far = inside & (distance <= within), inside & (distance > within)
    edge = (ROOM - np.abs(places).max(axis=1) < 0.01) & (distance > within)
    rank: Any = spearmanr(distance[near], land.nats[near])
    rise = float(np.ptp(land.nats[near]))
    beyond = float("nan")
    if far.sum() > 2:
        line = np.polyfit(distance[far], land.nats[far], 1)
        beyond = float(line[0] * np.ptp(distance[far]) / rise)
    lowest = float(distance[inside][land.nats[inside].argmin()])
    drop = (
        float(land.nats[far].mean() - land.nats[edge].mean())
        if far.any() and edge.any()
        else float("nan")
    )
    return Shape(float(rank.statistic), lowest, beyond, drop)


def catches(episodes: list[Episode]) -> np.ndarray:
    """How often each agent was caught, per 1,000 steps."""
    return np.array([1000 * np.asarray(e.states.caught)[1:].mean() for e in episodes])


def interval(
    rates: np.ndarray, statistic: Callable[[np.ndarray], Any] = np.mean
) -> tuple[float, float]:
    """A 95 % interval by resampling runs."""
    rng = np.random.default_rng(0)
    draws = [statistic(rates[rng.integers(len(rates), size=len(rates))]) for _ in range(RESAMPLES)]
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def make_predator_prey(shop: Workshop) -> dict[str, Finding]:
    world = PredatorPrey()
    within = reach(world, shop.figure.horizon)
    shapes: list[list[Shape]] = []
    rates: dict[str, list[np.ndarray]] = {"greedy": [], "random": [], "still": [], "fleeing": []}
    for seed, estimator in enumerate(shop.trained("predator-prey")):
        lands = [estimator.landscape(states=world.around(np.array(place))) for place in PLACES]
        shapes.append(
            [
                shape(land, np.array(place), within)
                for land, place in zip(lands, PLACES, strict=True)
            ]
        )
        shop.progress.now(f"predator-prey: escapes, seed {seed}")
        for name, episodes in _escapes(world, estimator, seed).items():
            rates[name].append(catches(episodes))
            if seed == 0 and name == "greedy":
                _traces(shop, world, estimator)
                video(world, episodes[0], shop.out / "predator-prey.gif", fps=5)
                shop.files.append("predator-prey.gif")
                shop.episode(
                    world, episodes[0], "predator-prey, greedy on learned empowerment", "greedy"
                )
        if seed == 0:
            shop.draw(_landscapes(lands, within), _caption(within, shop.figure.horizon))
    _tables(shop, shapes, rates, within)
    greedy = np.array([x.mean() for x in rates["greedy"]])
    idle = np.array(
        [min(a.mean(), b.mean()) for a, b in zip(rates["random"], rates["still"], strict=True)]
    )
    return {
        "rises": Finding(None, [min(s.spearman for s in one) for one in shapes]),
        "lowest": Finding(None, [max(s.lowest for s in one) for one in shapes]),
        "flat": Finding(
            None, [float(np.nanmax([abs(s.slope_beyond) for s in one])) for one in shapes]
        ),
        "walls": Finding(None, [float(np.nanmin([s.drop for s in one])) for one in shapes]),
        "escapes": Finding(None, list(greedy / idle)),
    }


def _escapes(world: PredatorPrey, estimator: "Estimator", seed: int) -> dict[str, list[Episode]]:
    """Episodes of every agent from the same starts."""
    starts = world.scatter(RUNS, np.random.default_rng(1000 + seed))
    value = _value(world, estimator)
    agents = {
        "greedy": Greedy(world, value),
        "random": Random(world, value),
        "still": Still(world, value),
        "fleeing": Fleeing(world, value),
    }
    return {name: run_episodes(world, agent, starts, STEPS, seed) for name, agent in agents.items()}


def _value(world: PredatorPrey, estimator: "Estimator") -> Value:
    """Learned empowerment; continuous states never recur, so that nothing is remembered."""
    return lambda states: estimator.empowerment(world.observe(states))


def _landscapes(lands: list[Landscape], within: float) -> Drawing:
    drawing = Drawing(figsize=(3.2 * len(lands), 3.6), layout="constrained")
    axes = drawing.subplots(1, len(lands), squeeze=False)[0]
    low, high = min(land.nats.min() for land in lands), max(land.nats.max() for land in lands)
    picture = None
    for ax, land, (x, y) in zip(axes, lands, PLACES, strict=True):
        edge = ROOM * (1 + 1 / (land.grid().shape[0] - 1))
        picture = ax.imshow(
            land.grid(), extent=(-edge, edge, -edge, edge), vmin=low, vmax=high, cmap="viridis"
        )
        ax.add_patch(_disc((x, y), RADIUS, facecolor="red", edgecolor="white"))
        ax.add_patch(_disc((x, y), within, facecolor="none", edgecolor="white", linestyle="--"))
        ax.set(xlabel="x (m)", xlim=(-ARENA, ARENA), ylim=(-ARENA, ARENA))
    axes[0].set_ylabel("y (m)")
    drawing.colorbar(picture, ax=axes.tolist(), label="empowerment (nats)", shrink=0.8)  # pyright: ignore[reportArgumentType]
    return drawing


def _disc(centre: tuple[float, float], radius: float, **style: Any) -> Any:
    from matplotlib.patches import Circle

    return Circle(centre, radius, **style)


def _caption(within: float, horizon: int) -> str:
    return (
        f"Learned empowerment over the agent's place, K = {horizon}, both at rest, for several "
        "places of the predator "
        f"(red). Within the dashed circle, {within:.2f} m, the predator can touch an agent that "
        "does not move."
    )


def _traces(shop: Workshop, world: PredatorPrey, estimator: "Estimator") -> None:
    """Six pursuits: agent blue, predator red, and in cyan where empowerment rises most steeply."""
    value = _value(world, estimator)
    episodes = run_episodes(
        world, Greedy(world, value), world.scatter(PANELS, np.random.default_rng(7)), TRACE
    )
    drawing = Drawing(figsize=(9, 6.4), layout="constrained")
    for ax, episode in zip(drawing.subplots(2, PANELS // 2).ravel(), episodes, strict=True):
        _trace(ax, world, value, episode)
    shop.draw(
        drawing,
        "A greedy agent on learned empowerment (blue) and the predator (red), from six starts "
        "(dots) to the ends "
        f"(circles) after {TRACE} steps; cyan: the direction in which empowerment rises most "
        "steeply. Where the agent "
        "was caught and put back, its path is cut.",
        "traces",
    )


def _trace(ax: Axes, world: PredatorPrey, value: Value, episode: Episode) -> None:
    states, caught = episode.states, np.asarray(episode.states.caught)
    agent, predator = (np.asarray(x)[:, :2].astype(float) for x in (states.agent, states.predator))
    uphill = steepest(value, lambda offset: world.shifted(states, offset), 2, by=0.1)
    uphill /= np.maximum(np.linalg.norm(uphill, axis=1, keepdims=True), 1e-9)
    ax.quiver(*agent[::2].T, *uphill[::2].T, color="cyan", scale=9, width=0.008, zorder=3)
    cut = agent.copy()
    cut[caught] = np.nan
    ax.plot(*cut.T, color="blue", linewidth=1.2)
    ax.plot(*predator.T, color="red", linewidth=1.2)
    for path, colour in ((agent, "blue"), (predator, "red")):
        ax.plot(*path[0], "o", color=colour, markersize=4)
        ax.add_patch(_disc((path[-1, 0], path[-1, 1]), RADIUS, facecolor=colour, alpha=0.6))
    ax.set(
        xlim=(-ARENA, ARENA),
        ylim=(-ARENA, ARENA),
        xticks=[-1, 0, 1],
        yticks=[-1, 0, 1],
        aspect="equal",
    )
    ax.set(xlabel="x (m)", ylabel="y (m)")
    ax.label_outer()
    ax.set_title(f"caught {int(caught.sum())} times", fontsize=8)


def _tables(
    shop: Workshop, shapes: list[list[Shape]], rates: dict[str, list[np.ndarray]], within: float
) -> None:
    header = ["seed", "predator_x_m", "predator_y_m", "reach_m", *Shape._fields]
    rows = [
        [seed, *place, within, *one]
        for seed, found in enumerate(shapes)
        for place, one in zip(PLACES, found, strict=True)
    ]
    shop.table(header, rows)
    lines = []
    for name, found in rates.items():
        for seed, one in enumerate(found):
            lines.append([name, seed, RUNS, STEPS, float(one.mean()), *interval(one)])
        lines.append(
            [
                name,
                "all",
                RUNS * len(found),
                STEPS,
                float(np.mean(found)),
                *interval(np.concatenate(found)),
            ]
        )
    shop.table(
        ["agent", "seed", "runs", "steps", "caught_per_1000", "low", "high"], lines, "escapes"
    )


PREDATOR_PREY = Figure(
    "predator-prey",
    ("predator-prey",),
    make_predator_prey,
    (
        Statement(
            "rises",
            "predator and prey: empowerment rises with the distance to the predator, as far as it "
            "can matter",
            "Spearman correlation >= 0.8 within reach, for every place of the predator",
            all_at_least(0.8),
        ),
        Statement(
            "lowest",
            "predator and prey: it is lowest at the predator",
            "the lowest place away from the walls lies within 0.3 m of the predator",
            all_at_most(0.3),
        ),
        Statement(
            "flat",
            "predator and prey: it is flat beyond",
            "its trend beyond reach is at most half of its rise within",
            all_at_most(0.5),
        ),
        Statement(
            "walls",
            "predator and prey: it drops at the walls",
            "places at the walls are lower on average than places away from them",
            lambda finding: min(finding.learned) > 0,
        ),
        Statement(
            "escapes",
            "predator and prey: the greedy agent escapes",
            "caught at most a fifth as often as an agent with random forces and as one that stands "
            "still",
            all_at_most(0.2),
        ),
    ),
    horizon=HORIZON,
    seeds=3,
)
