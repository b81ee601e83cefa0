"""Section 5.2, lava in a corridor and in a maze: the greedy agent builds a wall in time."""

from functools import partial
from typing import NamedTuple

import numpy as np

from .. import exact, make
from ..behaviour import Episode, Greedy, Random, exact_value, learned_value, run_episodes
from ..behaviour.value import Cached
from ..landscape import Comparison, Landscape, compare
from ..worlds.world import State, World, concatenate, identify, leaves, take
from .episode import filmstrip
from .workshop import Figure, Finding, Statement, Workshop, all_at_least

STARTS, STEPS = 100, 200
MOST_VISITED = 1500
"""States on which learned and exact values are compared."""


class Outcome(NamedTuple):
    """What became of the agents."""

    alive: np.ndarray
    cells: np.ndarray
    """cells within reach at the end"""


def make_lava(name: str, shop: Workshop) -> dict[str, Finding]:
    world = make(name)
    starts = _starts(world, STARTS)
    truth = exact_value(world, shop.figure.horizon)
    shop.progress.now(f"{name}: exact greedy play")
    best = run_episodes(world, Greedy(world, truth), starts, STEPS)
    outcome = run_episodes(world, Random(world, truth), starts, STEPS)
    # Only starts that exact empowerment survives say something of the learned one.
    saved = np.array([episode.alive for episode in best])
    rows, shares, fits, spaces = [], [], [], []
    for kind, episodes in (("exact", best), ("random", outcome)):
        rows.append([kind, "", *_row(_outcome(episodes, saved))])
    for seed, estimator in enumerate(shop.trained(name)):
        value = learned_value(world, estimator)
        played = run_episodes(world, Greedy(world, value), starts, STEPS)
        fits.append(_fit(world, value, shop.figure.horizon, played + outcome))
        found = _outcome(played, saved)
        shares.append(float(found.alive.mean()) if saved.any() else float("nan"))
        spaces.append(float(np.median(found.cells)) if saved.any() else float("nan"))
        rows.append(["learned", seed, *_row(found), fits[-1].r2, fits[-1].pearson, fits[-1].bias])
        if seed == 0:
            _films(shop, world, best, played)
    header = [
        "agent",
        "seed",
        "starts",
        "alive",
        "cells_left_median",
        "cells_left_least",
        "r2",
        "pearson",
        "bias_nats",
    ]
    shop.table(header, rows)
    return {
        "r2": Finding(None, [fit.r2 for fit in fits]),
        "alive": Finding(None, shares),  # of the starts that exact values survive
        "space": Finding(
            float(np.median(_outcome(best, saved).cells)) if saved.any() else None, spaces
        ),
    }


def _starts(world: World, count: int) -> State:
    """Places drawn at random, with the lava as at the start."""
    states = world.states()
    return take(states, np.random.default_rng(0).integers(len(leaves(states)[0]), size=count))


def _outcome(episodes: list[Episode], of: np.ndarray) -> Outcome:
    chosen = [episode for episode, keep in zip(episodes, of, strict=True) if keep]
    return Outcome(
        np.array([e.alive for e in chosen]), np.array([e.reachable_cells for e in chosen])
    )


def _row(found: Outcome) -> list:
    if not found.alive.size:
        return [0, float("nan"), float("nan"), float("nan")]
    cells = found.cells
    return [len(found.alive), float(found.alive.mean()), float(np.median(cells)), int(cells.min())]


def _fit(world: World, value: Cached, horizon: int, episodes: list[Episode]) -> Comparison:
    """Learned against exact values over distinct living states that were visited."""
    states = concatenate([take(e.states, ~np.asarray(world.terminal(e.states))) for e in episodes])
    _, first = np.unique(identify(states), return_index=True)
    if len(first) > MOST_VISITED:
        first = np.random.default_rng(0).choice(first, MOST_VISITED, replace=False)
    visited = take(states, first)
    return compare(
        Landscape.of(world, horizon, visited, value(visited)), exact(world, horizon, visited)
    )


def _films(shop: Workshop, world: World, best: list[Episode], played: list[Episode]) -> None:
    """The first start's episodes as filmstrips and for the report's player."""
    caption = (
        f"{world.name}: a greedy agent on {{}} empowerment, K = {shop.figure.horizon}, at chosen "
        "steps. Bars: expected "
        "empowerment (nats) of every action, the chosen one black; ▪ lays a brick."
    )
    for kind, part, episode in (("learned", "", played[0]), ("exact", "exact", best[0])):
        shop.draw(filmstrip(world, episode), caption.format(kind), part)
        shop.episode(world, episode, f"{world.name}, greedy on {kind} empowerment", "greedy")


def _figure(name: str, horizon: int) -> Figure:
    """The horizon is the shortest with which greedy agents on exact empowerment survive as often as
    with five."""
    statements = (
        Statement(
            "r2",
            f"{name}: learned values are close to exact ones",
            "R² >= 0.95 over states visited by random and by greedy play",
            all_at_least(0.95),
        ),
        Statement(
            "alive",
            f"{name}: the greedy agent on learned empowerment protects itself with bricks",
            f"alive after {STEPS} steps in >= 95 % of the starts that exact empowerment survives",
            all_at_least(0.95),
        ),
        Statement(
            "space",
            f"{name}: it keeps itself room to move",
            "median of the cells within reach at the end >= 2",
            all_at_least(2.0),
        ),
    )
    return Figure(name, (name,), partial(make_lava, name), statements, horizon)


LAVA_CORRIDOR, LAVA_MAZE = _figure("lava-corridor", 3), _figure("lava-maze", 4)
