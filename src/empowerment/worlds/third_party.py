"""Third-party Gymnasium environments as worlds. Those that reveal their dynamics are exact."""

import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from .table import TableWorld
from .world import Layout, World

HARMLESS = (
    gymnasium.ObservationWrapper,
    gymnasium.RewardWrapper,
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.HumanRendering,
    wrappers.RenderCollection,
)
"""Wrappers that leave alone what actions do to the state."""
ACTIONS = {
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("south", "north", "east", "west", "pick up", "drop off"),
}


def from_gymnasium(env: gymnasium.Env) -> World:
    """A world from a Gymnasium environment.

    Environments with a table of transitions `env.unwrapped.P` (FrozenLake, CliffWalking, Taxi) and MiniGrid
    environments become exact worlds. Time limits are left out, since a step counter is no part of a state, and
    terminal states absorb. The environment itself is not changed.

    >>> import gymnasium
    >>> from_gymnasium(gymnasium.make("FrozenLake-v1")).actions
    ('left', 'down', 'right', 'up')
    """
    if not isinstance(env, gymnasium.Env):
        raise ValueError(
            f"env is a {type(env).__name__}; give a gymnasium.Env, such as gymnasium.make('FrozenLake-v1')"
        )
    inner: Any = env.unwrapped
    if isinstance(getattr(inner, "P", None), dict):
        _refuse_wrappers(env)
        return from_table(inner)
    if "minigrid" in sys.modules:
        from .minigrid import MiniGridWorld, is_minigrid

        if is_minigrid(inner):
            _refuse_wrappers(env)
            return MiniGridWorld(inner, name_of(inner))
    raise ValueError(
        f"environment {name_of(inner)!r} can be learned on but not enumerated: it has neither a table of transitions "
        "(env.unwrapped.P) nor a MiniGrid grid; give one of those, or from_transitions(T)"
    )


def name_of(env: gymnasium.Env) -> str:
    return env.spec.id if env.spec is not None else type(env).__name__


def _refuse_wrappers(env: gymnasium.Env) -> None:
    """Dynamics are read beneath the wrappers, so none may change them."""
    while isinstance(env, gymnasium.Wrapper):
        if not isinstance(env, HARMLESS):
            raise ValueError(
                f"wrapper {type(env).__name__} may change what actions do, which the table beneath it does not show; "
                "give the environment without it, or env.unwrapped"
            )
        env = env.env


def from_table(env: Any) -> TableWorld:
    """`P[s][a]`, a list of (probability, next state, reward, terminated), as an exact world."""
    if getattr(env, "fickle_passenger", False):
        raise ValueError("fickle_passenger=True is chance that the table P leaves out; make the environment without it")
    size, actions = len(env.P), len(env.P[0])
    outcomes = [[_merged(env.P[s][a]) for a in range(actions)] for s in range(size)]
    terminal = np.zeros(size, bool)
    ends = [
        int(next_state) for row in env.P.values() for o in row.values() for p, next_state, _, over in o if over and p
    ]
    terminal[ends] = True
    chances = max(len(o) for row in outcomes for o in row)
    successors = np.tile(np.arange(size)[:, None, None], (1, actions, chances))
    odds = np.zeros(successors.shape)
    odds[:, :, 0] = 1
    for s in np.flatnonzero(~terminal):
        for a, found in enumerate(outcomes[s]):
            odds[s, a] = 0
            for c, (next_state, probability) in enumerate(found.items()):
                successors[s, a, c], odds[s, a, c] = next_state, probability
    starts = np.flatnonzero(env.initial_state_distrib)
    layout, places = _layout(env, size)
    return TableWorld(
        successors,
        odds,
        name=name_of(env),
        actions=ACTIONS.get(type(env).__name__),
        start=int(starts[0]),
        layout=layout,
        places=places,
        terminals=terminal,
        shown=_reachable(successors, odds, starts),
    )


def _merged(outcomes: list[tuple[Any, ...]]) -> dict[int, float]:
    """Probability of each next state; the table may list one several times, and its sums may be off by rounding."""
    merged: dict[int, float] = {}
    for probability, next_state, *_ in outcomes:
        if probability > 0:
            merged[int(next_state)] = merged.get(int(next_state), 0.0) + float(probability)
    total = sum(merged.values())
    if abs(total - 1) > 1e-9:
        raise ValueError(
            f"the table P has outcomes {outcomes} whose probabilities sum to {total:.6g}; they must to one"
        )
    return {next_state: probability / total for next_state, probability in merged.items()}


def _reachable(successors: np.ndarray, odds: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Numbers of the states that can be met at all."""
    met = np.zeros(len(successors), bool)
    frontier = starts
    while len(frontier):
        met[frontier] = True
        after = np.unique(successors[frontier][odds[frontier] > 0])
        frontier = after[~met[after]]
    return np.flatnonzero(met)


def _layout(env: Any, size: int) -> tuple[Layout | None, np.ndarray | None]:
    """The plane of a known environment, or nothing."""
    marks: tuple[tuple[str, int, int], ...] = ()
    if type(env).__name__ == "TaxiEnv":
        places = np.array([tuple(env.decode(s))[:2] for s in range(size)])
        shape = (int(places[:, 0].max()) + 1, int(places[:, 1].max()) + 1)
        return Layout(shape, np.zeros(shape, bool)), places
    if np.size(getattr(env, "desc", ())) == size:
        shape = env.desc.shape
        kinds = {b"S": "start", b"H": "hole", b"G": "goal"}
        marks = tuple((kinds[env.desc[r, c]], int(r), int(c)) for r, c in np.ndindex(*shape) if env.desc[r, c] in kinds)
    elif np.prod(getattr(env, "shape", (0,))) == size:
        shape = tuple(env.shape)
    else:
        return None, None
    return Layout(shape, np.zeros(shape, bool), marks), np.stack(np.unravel_index(np.arange(size), shape), axis=1)
