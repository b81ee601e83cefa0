"""Landscapes as the page needs them: values of each cell, exact and learned, and what follows from
each."""

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ..exact import exact
from ..figures.scenes import scenes
from ..landscape import Landscape, compare
from ..worlds.world import State, World, leaves, take
from .futures import exact_futures, learned_futures, plans
from .packing import LARGEST

MOST_STATES = 1500
"""States of a landscape up to which sources and plans are worked out."""


def run_panels(
    estimators: list[Any], names: list[str], seeds: list[Any], notes: list[str]
) -> list[dict[str, Any]]:
    """A panel for each scene of a world, with all its trainings; sources and plans are the first
    training's."""
    world, config = estimators[0].world, estimators[0].config
    beta = config.beta
    if world is None:
        notes.append(
            f"{names[0]}: only the program that made it knows its world, so that it is not drawn"
        )
        return []
    if world.layout is None or np.prod(world.layout.shape) > LARGEST:
        notes.append(f"{world.name}: without a layout of at most {LARGEST} cells it is not drawn")
        return []
    if beta != 1:
        notes.append(
            f"{names[0]}: beta={beta}, so that it is not compared with exact empowerment, which "
            "has beta=1"
        )
    panels = []
    for scene, states in scenes(world).items():
        truth = _exact(world, config, states, notes) if beta == 1 else None
        learned = [e.landscape(states=states) for e in estimators]
        keep = _shown(truth or learned[0])
        panel = _frame(truth or learned[0], scene, keep) | {
            "actions": list(world.actions),
            "exact": None if truth is None else _rounded(truth.nats[keep]),
            "learned": [
                {
                    "run": name,
                    "seed": seed,
                    "nats": _rounded(land.nats[keep]),
                    "fit": _fit(land, truth),
                }
                for name, seed, land in zip(names, seeds, learned, strict=True)
            ],
        }
        if beta != 1:
            panel["scene"] = f"{panel['scene']}, β = {beta:g}".removeprefix(", ")
        panels.append(panel | _futures(estimators[0], take(states, keep), notes))
    return panels


def estimate_panel(truth: Landscape, estimates: dict[str, np.ndarray]) -> dict[str, Any]:
    """A panel of exact values and of estimates of them, by name."""
    keep = _shown(truth)
    learned = [
        {
            "run": name,
            "seed": None,
            "nats": _rounded(nats[keep]),
            "fit": _fit(replace(truth, nats=nats), truth),
        }
        for name, nats in estimates.items()
    ]
    return _frame(truth, "", keep) | {
        "actions": [],
        "exact": _rounded(truth.nats[keep]),
        "learned": learned,
    }


def landscape_panel(land: Landscape) -> dict[str, Any]:
    """A panel of a saved landscape: proved ones count as exact, others as learned."""
    if land.layout is None or land.positions is None or land.layout.walls.size > LARGEST:
        raise ValueError(f"a landscape without a layout of at most {LARGEST} cells is not drawn")
    keep = _shown(land)
    proved, nats = bool(np.isfinite(land.lower).all()), _rounded(land.nats[keep])
    learned = (
        [] if proved else [{"run": "saved landscape", "seed": None, "nats": nats, "fit": None}]
    )
    return _frame(land, "", keep) | {
        "actions": [],
        "exact": nats if proved else None,
        "learned": learned,
    }


def _frame(land: Landscape, scene: str, keep: np.ndarray) -> dict[str, Any]:
    assert land.layout is not None  # panels are made of landscapes with a layout only
    assert land.positions is not None
    rows, columns = land.layout.shape
    return {
        "name": land.world,
        "scene": f"{scene}{_loop(land)}".removeprefix(", "),
        "horizon": steps_shown(land.horizon),
        "rows": rows,
        "columns": columns,
        "walls": np.flatnonzero(land.layout.walls).tolist(),
        "marks": [
            list(mark)
            for mark in land.layout.marks
            if not (scene == "key in hand" and mark[0] == "key")
        ],
        "cells": (land.positions[keep] @ np.array([columns, 1])).tolist(),
    }


def _loop(land: Landscape) -> str:
    """How feedback is named beside a landscape."""
    weight = f", discount {land.discount:g}" if land.discount != 1 else ""
    return f", with feedback, K = {steps_shown(land.horizon)}{weight}" if land.feedback else ""


def steps_shown(horizon: Any) -> Any:
    """A horizon, given or as a run's JSON holds it, for the page."""
    return "∞" if horizon in (math.inf, "inf") else horizon


def _shown(land: Landscape) -> np.ndarray:
    """One state for each cell, the most empowered, in the order of the cells."""
    assert land.layout is not None  # as above
    assert land.positions is not None
    cells = land.positions @ np.array([land.layout.shape[1], 1])
    order = np.lexsort((-land.nats, cells))
    return order[np.unique(cells[order], return_index=True)[1]]


def _exact(world: World, config: Any, states: State, notes: list[str]) -> Landscape | None:
    closed = {"feedback": config.feedback, "discount": config.discount}
    try:
        return exact(world, config.horizon, states, **closed)
    except (ValueError, MemoryError) as error:
        notes.append(f"{world.name}: no exact values ({error})")
        return None


def _fit(learned: Landscape, truth: Landscape | None) -> dict[str, Any] | None:
    if truth is None:
        return None
    found = asdict(compare(learned, truth))
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in found.items()}


def _futures(estimator: Any, states: State, notes: list[str]) -> dict[str, Any]:
    world, horizon = estimator.world, estimator.config.horizon
    if estimator.config.feedback:  # there are no sequences that could be shown
        return {}
    if (
        len(leaves(states)[0]) > MOST_STATES
        or len(world.actions) > 64
        or world.continuous is not None
    ):
        notes.append(
            f"{world.name}: sources and plans are left out beyond {MOST_STATES} states and 64 "
            "actions"
        )
        return {}
    try:
        counted, goals = (
            exact_futures(world, states, horizon) if world.deterministic else (None, None)
        )
    except (ValueError, MemoryError) as error:
        notes.append(f"{world.name}: no exact ends ({error})")
        counted, goals = None, None
    drawn, met = learned_futures(estimator, states)
    cells, texts = plans(estimator, states, met if goals is None else goals)
    return {"ends": {"exact": counted, "learned": drawn}, "goals": cells, "plans": texts}


def _rounded(nats: np.ndarray) -> list[float | None]:
    return [round(float(x), 4) if np.isfinite(x) else None for x in nats]
