"""Section 5.2, key and door: before the key is taken the best place is at the key, after it next to
the door."""

from dataclasses import replace
from typing import Any

import numpy as np

from .. import make
from ..behaviour import Greedy, Random, exact_value, learned_value, plan, run_episodes
from ..behaviour.value import Value
from ..landscape import Landscape, compare
from ..reach import closure
from ..worlds.grid import GridState
from ..worlds.world import World, concatenate, identify, take
from .boxes import distance, draw_rooms
from .scenes import scenes
from .static import FIT_HEADER, fit_row
from .workshop import Figure, Finding, Statement, Workshop, all_at_least, all_at_most

STARTS, STEPS, GAMMA = 100, 60, 0.95
MOST = 10**6
"""states among which those that can be come to are looked for"""
CLOSE = 0.05
"""nats of exact empowerment within which two ends count as equally good"""


def make_key_door(shop: Workshop) -> dict[str, Finding]:
    world = make("key-door")
    estimators = shop.trained("key-door")
    every = scenes(world)
    truths = [shop.exact(world, states) for states in every.values()]
    learned = [[e.landscape(states=states) for e in estimators] for states in every.values()]
    before, after = ((truth, lands[0]) for truth, lands in zip(truths, learned, strict=True))
    shop.draw(
        draw_rooms([before, (_without_key(after[0]), _without_key(after[1]))], list(every)),
        f"Empowerment before and after the agent has the key, K = {shop.figure.horizon}: exact "
        "above, learned from "
        "pixels below. k: key, d: door. Values in nats. With the key in hand and the door shut, no "
        "agent has ever been "
        "in the room on the right.",
    )
    met = {scene: take(states, _within_reach(world, states)) for scene, states in every.items()}
    rows = [
        [
            scene,
            seed,
            *fit_row(compare(estimator.landscape(states=states), shop.exact(world, states))),
        ]
        for scene, states in met.items()
        for seed, estimator in enumerate(estimators)
    ]
    shop.table(["scene", "seed", *FIT_HEADER], rows)
    places = {
        "before": Finding(distance(truths[0], "key"), [distance(x, "key") for x in learned[0]]),
        "after": Finding(distance(truths[1], "door"), [distance(x, "door") for x in learned[1]]),
    }
    return places | _behaviour(shop, world, estimators)


def _within_reach(world: World, states: GridState) -> np.ndarray:
    """Which of these states an agent that starts in any place of this world can come to."""
    return np.isin(identify(states), identify(closure(world, world.states(), MOST).states))


def _without_key(land: Landscape) -> Landscape:
    """The landscape without the key's mark."""
    assert land.layout is not None  # key-door has a layout
    marks = tuple(mark for mark in land.layout.marks if mark[0] != "key")
    return replace(land, layout=replace(land.layout, marks=marks))


def _behaviour(shop: Workshop, world: World, estimators: list) -> dict[str, Finding]:
    """Where greedy and planning agents end from places in the key's room, exact, learned and at
    random."""
    starts, truth = _starts(world), exact_value(world, shop.figure.horizon)
    values = [learned_value(world, estimator) for estimator in estimators]
    makers = {"greedy": Greedy, "planning": lambda w, v: plan(w, v, GAMMA, starts=starts)}
    findings, rows = {}, []
    for name, maker in makers.items():
        best = _ends(
            world, maker(world, truth), starts, shop, f"key-door, {name} on exact empowerment"
        )
        ends = [
            _ends(
                world,
                maker(world, value),
                starts,
                shop if seed == 0 else None,
                f"key-door, {name}, learned",
            )
            for seed, value in enumerate(values)
        ]
        shares = [agreement(end, best, truth) for end in ends]
        outcome = agreement(_ends(world, Random(world, truth), starts, None, ""), best, truth)
        findings[name] = Finding(None, shares)
        rows += [[name, "exact", np.mean(best.carrying)], [name, "random", outcome]]
        rows += [[name, f"seed {seed}", share] for seed, share in enumerate(shares)]
        if name == "planning":
            findings["door"] = Finding(_at_the_door(world, best))
        else:
            findings["stay"] = Finding(float(1 - np.mean(best.carrying)))
    header = ["behaviour", "agent", "agreement_or_share_with_key"]
    shop.table(header, [[a, b, float(c)] for a, b, c in rows], "behaviour")
    return findings


def _starts(world: World) -> GridState:
    """Places in the key's room, drawn at random."""
    states = world.states()
    assert world.layout is not None  # key-door has a layout
    door = next(column for kind, _, column in world.layout.marks if kind == "door")
    room = np.flatnonzero(world.locate(states)[:, 1] < door)
    return take(states, np.random.default_rng(0).choice(room, STARTS))


def _ends(
    world: World, behaviour: Any, starts: GridState, shop: Workshop | None, title: str
) -> GridState:
    """Last states; the first episode is kept for the report where a workshop is given."""
    episodes = run_episodes(world, behaviour, starts, STEPS)
    if shop is not None:
        shop.episode(world, episodes[0], title, title.split(", ")[1])
    return concatenate([take(episode.states, slice(-1, None)) for episode in episodes])


def agreement(found: GridState, wanted: GridState, truth: Value) -> float:
    """Share of ends with the same key and door as wanted, and as good by exact empowerment."""
    same = (found.carrying == wanted.carrying) & (found.keys == wanted.keys).all(-1)
    return float(np.mean(same & (truth(found) >= truth(wanted) - CLOSE)))


def _at_the_door(world: World, states: GridState) -> float:
    """Share of agents that have the key and stand next to the door or in it."""
    assert world.layout is not None  # key-door has a layout
    door = np.array(
        next((row, column) for kind, row, column in world.layout.marks if kind == "door")
    )
    near = np.abs(world.locate(states) - door).max(axis=-1) <= 1
    return float(np.mean(near & states.carrying))


KEY_DOOR = Figure(
    "key-door",
    ("key-door",),
    make_key_door,
    (
        Statement(
            "before",
            "before the key is taken, empowerment is highest around the key",
            "cells between the highest place and the key <= 1",
            all_at_most(1.0),
        ),
        Statement(
            "after",
            "once the agent has the key, empowerment is highest close to the door",
            "cells between the highest place and the door <= 1",
            all_at_most(1.0),
        ),
        Statement(
            "stay",
            "a one-step greedy agent does not take the key, which would give the option away",
            "share of 100 starts that end without the key, exact: >= 0.95",
            lambda f: f.exact is not None and f.exact >= 0.95,
        ),
        Statement(
            "door",
            "an agent that plans (discount 0.95) takes the key and stands next to the door",
            "share of 100 starts, exact: >= 0.95",
            lambda f: f.exact is not None and f.exact >= 0.95,
        ),
        *(
            Statement(
                name,
                f"key-door: the {name} agent on learned empowerment ends where the one on exact "
                "empowerment does",
                f"same key, and as good within {CLOSE} nats, in >= 95 % of {STARTS} starts",
                all_at_least(0.95),
            )
            for name in ("greedy", "planning")
        ),
    ),
)
