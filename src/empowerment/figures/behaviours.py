"""Section 4.3: the ways to act on empowerment compared, by how soon they are where it is highest
and how they roam."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure as Drawing

from .. import make
from ..behaviour import exact_source, exact_value, learned_source, learned_value, run_episodes
from ..behaviour.named import Setting, make_behaviour
from ..behaviour.value import Value
from ..reach import explore
from ..worlds.world import State, World, leaves, take
from .workshop import Figure, Finding, Statement, Workshop, all_at_least

WORLDS = ("two-rooms", "key-door")
KINDS = ("random", "source", "greedy", "planning", "shaping")
STARTS, REPEATS, STEPS, GAMMA = 10, 5, 60, 0.97
NEAR = 0.01
"""nats below the highest exact value within reach at which a place counts as the most empowered"""
HEADER = ("reached", "steps_to_reach", "evenness", "distinct_cells", "spread_nats")


class Record(NamedTuple):
    """What a behaviour did from many starts."""

    reached: float
    """share of the starts from which the most empowered place was reached"""
    steps: float
    """median number of steps to it, those that never arrived counted as all"""
    evenness: float
    """entropy of all visits to cells, divided by that of visiting every cell equally"""
    cells: float
    """mean number of different cells that one episode visits"""
    spread: float
    """standard deviation between episodes from one start of their mean exact empowerment, in nats
    """


def make_behaviours(shop: Workshop) -> dict[str, Finding]:
    exact_records: dict[tuple[str, str], Record] = {}
    learned: list[dict[tuple[str, str], Record]] = [{} for _ in range(shop.seeds)]
    for name in WORLDS:
        world, horizon = make(name), shop.figure.horizon
        truth = exact_value(world, horizon)
        estimators = shop.trained(name)
        settings = [Setting(world, truth, exact_source(world, horizon), GAMMA)]
        settings += [
            Setting(world, learned_value(world, e), learned_source(world, e), GAMMA)
            for e in estimators
        ]
        for kind in KINDS:
            shop.progress.now(f"behaviours: {name}, {kind}")
            for records, setting in zip([exact_records, *learned], settings, strict=True):
                records[name, kind] = _record(setting, kind, truth)
    rows = [["exact", "", *key, *record] for key, record in exact_records.items()]
    rows += [
        ["learned", seed, *key, *r]
        for seed, records in enumerate(learned)
        for key, r in records.items()
    ]
    shop.table(["empowerment", "seed", "world", "behaviour", *HEADER], rows)
    shop.draw(_drawn(exact_records, learned[0]), _caption())
    return _findings(exact_records, learned)


def _record(setting: Setting, kind: str, truth: Value) -> Record:
    world, starts = setting.world, _starts(setting.world)
    episodes = run_episodes(world, make_behaviour(kind, setting), starts, STEPS)
    worth = [truth(episode.states) for episode in episodes]
    arrived = [
        np.flatnonzero(nats >= top - NEAR)
        for nats, top in zip(worth, _highest(world, starts, truth), strict=True)
    ]
    first = [int(at[0]) if len(at) else STEPS for at in arrived]
    assert world.layout is not None  # both worlds have one
    cells = [e.path @ np.array([world.layout.shape[1], 1]) for e in episodes if e.path is not None]
    visits = np.bincount(np.concatenate(cells))
    shares = visits[visits > 0] / visits.sum()
    places = len(leaves(world.states())[0])
    return Record(
        float(np.mean([len(at) > 0 for at in arrived])),
        float(np.median(first)),
        float(-(shares * np.log(shares)).sum() / np.log(places)),
        float(np.mean([len(np.unique(x)) for x in cells])),
        float(np.reshape([nats.mean() for nats in worth], (STARTS, REPEATS)).std(axis=1).mean()),
    )


def _starts(world: World) -> State:
    """Places drawn at random, each of them several times in a row."""
    states = world.states()
    return take(
        states,
        np.random.default_rng(0).integers(len(leaves(states)[0]), size=STARTS).repeat(REPEATS),
    )


def _highest(world: World, starts: State, truth: Value) -> list[float]:
    """The highest exact value within reach of each start in the steps that an episode has."""
    firsts = range(0, STARTS * REPEATS, REPEATS)
    tables = (explore(world, take(starts, slice(i, i + 1)), STEPS, keep=True) for i in firsts)
    return [float(truth(table.states).max()) for table in tables for _ in range(REPEATS)]


def _findings(exact_records: dict, learned: list[dict]) -> dict[str, Finding]:
    def least(records: dict, difference) -> float:
        """The smaller of the two worlds."""
        return min(
            float(difference({kind: records[name, kind] for kind in KINDS})) for name in WORLDS
        )

    measures = {
        "even": lambda r: r["source"].evenness - max(r["greedy"].evenness, r["planning"].evenness),
        "explores": lambda r: r["source"].cells - r["random"].cells,
        "spread": lambda r: r["source"].spread - r["planning"].spread,
        "planning": lambda r: r["planning"].reached,
    }
    return {
        key: Finding(
            least(exact_records, measure), [least(records, measure) for records in learned]
        )
        for key, measure in measures.items()
    }


def _caption() -> str:
    return (
        f"Five behaviours, {REPEATS} times from each of {STARTS} starts, {STEPS} steps each, on "
        "exact (dark) and "
        "learned (light) empowerment. "
        "Left: median steps to the most empowered place. Middle: how evenly cells are visited (1: "
        "all equally). "
        "Right: different cells visited in an episode."
    )


def _drawn(exact_records: dict, learned: dict) -> Drawing:
    """A row for each world; bars of exact beside learned empowerment."""
    drawing = Drawing(figsize=(11, 2.7 * len(WORLDS)), layout="constrained")
    axes = drawing.subplots(len(WORLDS), 3, squeeze=False)
    measures = {
        "steps": "median steps to the best place",
        "evenness": "evenness of visits",
        "cells": "cells visited",
    }
    for row, name in enumerate(WORLDS):
        for ax, (field, label) in zip(axes[row], measures.items(), strict=True):
            for shift, records, colour in (
                (-0.2, exact_records, "#31688e"),
                (0.2, learned, "#b5de2b"),
            ):
                heights = [getattr(records[name, kind], field) for kind in KINDS]
                kind_of = "exact" if shift < 0 else "learned"
                ax.bar(
                    np.arange(len(KINDS)) + shift,
                    heights,
                    0.38,
                    color=colour,
                    edgecolor="0.3",
                    label=kind_of,
                )
            ax.set_xticks(range(len(KINDS)), KINDS, fontsize=8)
            ax.set_ylabel(label, fontsize=8)
            ax.set_title(name, fontsize=9)
    axes[0, 0].legend(fontsize=8)
    return drawing


BEHAVIOURS = Figure(
    "behaviours",
    WORLDS,
    make_behaviours,
    (
        Statement(
            "even",
            "the source explores: it visits cells more evenly than greedy and planning agents do",
            "evenness of the source less the others' > 0 in both worlds",
            all_at_least(1e-9),
        ),
        Statement(
            "explores",
            "the source explores better than random actions",
            "different cells in an episode, source less random > 0 in both worlds",
            all_at_least(1e-9),
        ),
        Statement(
            "spread",
            "the source has a large variance",
            "spread of episodes' mean empowerment among repeats from one start, source less "
            "planning > 0 in both",
            all_at_least(1e-9),
        ),
        Statement(
            "planning",
            "planning on long-term empowerment reaches the most empowered place",
            "share of starts from which it is reached >= 0.95 in both worlds",
            all_at_least(0.95),
        ),
    ),
)
