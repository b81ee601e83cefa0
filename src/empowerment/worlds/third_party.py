"""Gymnasium environments as worlds. Those that reveal their dynamics are exact; on the others one
can learn."""

import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.vector import VectorEnv

from .environment import WorldEnv
from .learnable import Make, live
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


def from_gymnasium(
    env: gymnasium.Env | VectorEnv | Make,
    learn: bool = False,
    copies: int = 1,
    processes: bool = False,
) -> World:
    """A world from a Gymnasium environment, a vector environment, or a function that makes an
    environment.

    Environments with a table of transitions `env.unwrapped.P` (FrozenLake, CliffWalking, Taxi),
    MiniGrid environments and this package's own become exact worlds. Time limits are left out,
    since a step counter is no part of a state, and terminal states absorb. The environment itself
    is not changed. Learned on, MiniGrid is seen through its wrappers (ImgObsWrapper over
    RGBImgObsWrapper or FullyObsWrapper), and as a picture of the grid without any.

    On every other environment with Discrete, MultiDiscrete or bounded Box actions, and on those
    with `learn=True`, empowerment is learned by acting in the environment itself, from its own
    observations (pixels, vectors or numbers): `copies` of it, each in a process of its own with
    `processes=True` (worth it where a step takes longer than a millisecond; a script then needs `if
    __name__ == "__main__":`).

    >>> import gymnasium
    >>> from_gymnasium(gymnasium.make("FrozenLake-v1")).actions
    ('left', 'down', 'right', 'up')
    >>> from_gymnasium(gymnasium.make("CartPole-v1"), copies=4).copies
    4
    """
    single = isinstance(env, gymnasium.Env)
    if not single and not isinstance(env, VectorEnv) and not callable(env):
        raise ValueError(
            f"env is a {type(env).__name__}; give a gymnasium.Env, such as "
            "gymnasium.make('FrozenLake-v1'), "
            "a vector environment, or a function that makes an environment"
        )
    world = _exact(env) if single and not learn else None
    if world is None:
        return live(env, copies, processes, name_of(env))
    if copies != 1 or processes:
        raise ValueError(
            f"copies={copies} and processes={processes} are for learning on the environment "
            "itself, and "
            f"{world.name!r} is enumerated; leave them out, or give learn=True"
        )
    return world


def _exact(env: gymnasium.Env) -> World | None:
    """The exact world of an environment that reveals its dynamics."""
    inner: Any = env.unwrapped
    if isinstance(inner, WorldEnv):
        _refuse_wrappers(env)
        return inner.world
    if isinstance(getattr(inner, "P", None), dict):
        _refuse_wrappers(env)
        return from_table(inner)
    if "minigrid" in sys.modules:
        from .minigrid import MiniGridWorld, is_minigrid

        if is_minigrid(inner):
            _refuse_wrappers(env)
            return MiniGridWorld(env, name_of(inner))
    return None


def name_of(env: Any) -> str:
    """What an environment is called in messages."""
    inner = getattr(env, "unwrapped", env)
    spec = getattr(inner, "spec", None)
    return spec.id if spec is not None else getattr(inner, "__name__", type(inner).__name__)


def _refuse_wrappers(env: gymnasium.Env) -> None:
    """Dynamics are read beneath the wrappers, so none may change them."""
    while isinstance(env, gymnasium.Wrapper):
        if not isinstance(env, HARMLESS) or _steps_otherwise(type(env)):
            raise ValueError(
                f"wrapper {type(env).__name__} may change what actions do, which the table beneath "
                "it does not show; "
                "give the environment without it, or learn on it as it is with learn=True"
            )
        env = env.env


def _steps_otherwise(kind: type) -> bool:
    """Whether a wrapper of somebody's own, which should only change observations or rewards, has a
    way to step."""
    own = kind.__module__.split(".")[0] not in ("gymnasium", "minigrid", "empowerment")
    return own and kind.step not in (
        gymnasium.ObservationWrapper.step,
        gymnasium.RewardWrapper.step,
    )


def _numbered(table: Any) -> bool:
    """Whether this is a dictionary of 0, 1, 2 and so on."""
    return isinstance(table, dict) and len(table) > 0 and set(table) == set(range(len(table)))


def from_table(env: Any) -> TableWorld:
    """`P[s][a]`, a list of (probability, next state, reward, terminated), as an exact world."""
    if getattr(env, "fickle_passenger", False):
        raise ValueError(
            "fickle_passenger=True is chance that the table P leaves out; make the environment "
            "without it"
        )
    size = len(env.P)
    if not _numbered(env.P) or not all(
        _numbered(row) and len(row) == len(env.P[0]) for row in env.P.values()
    ):
        raise ValueError(
            f"environment {name_of(env)!r} has a table P that is not P[s][a] with states and "
            "actions from 0 on; "
            "give the transitions to emp.from_transitions"
        )
    actions = len(env.P[0])
    if not all(
        0 <= int(o[1]) < size for row in env.P.values() for listed in row.values() for o in listed
    ):
        raise ValueError(
            f"environment {name_of(env)!r} has a table P that leads to states it does not have; "
            "mend it"
        )
    outcomes = [[_merged(env.P[s][a]) for a in range(actions)] for s in range(size)]
    terminal = np.zeros(size, bool)
    ends = [
        int(next_state)
        for row in env.P.values()
        for o in row.values()
        for p, next_state, _, over in o
        if over and p
    ]
    terminal[ends] = True
    most = max(len(o) for row in outcomes for o in row)
    successors = np.tile(np.arange(size)[:, None, None], (1, actions, most))
    odds = np.zeros(successors.shape)
    odds[:, :, 0] = 1
    for s in np.flatnonzero(~terminal):
        for a, found in enumerate(outcomes[s]):
            odds[s, a] = 0
            for c, (next_state, probability) in enumerate(found.items()):
                successors[s, a, c], odds[s, a, c] = next_state, probability
    starts = np.flatnonzero(getattr(env, "initial_state_distrib", np.ones(size)))
    shown = _reachable(successors, odds, starts)
    _refuse_undecided(env, terminal, shown)
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
        shown=shown,
    )


def _refuse_undecided(env: Any, terminal: np.ndarray, reachable: np.ndarray) -> None:
    """Episodes end in states here, not on the way to them."""
    going_on = [s for s in reachable if not terminal[s]]
    entered = [
        int(o[1])
        for s in going_on
        for listed in env.P[int(s)].values()
        for o in listed
        if o[0] and not o[3]
    ]
    if not going_on or terminal[entered].any():
        raise ValueError(
            f"environment {name_of(env)!r} has a table P in which one and the same state ends an "
            "episode or does not, "
            "so that it cannot be enumerated; give learn=True"
        )


def _merged(outcomes: list[tuple[Any, ...]]) -> dict[int, float]:
    """Probability of each next state; the table may list one several times, and its sums may be off
    by rounding."""
    merged: dict[int, float] = {}
    for probability, next_state, *_ in outcomes:
        if probability > 0:
            merged[int(next_state)] = merged.get(int(next_state), 0.0) + float(probability)
    total = sum(merged.values())
    if abs(total - 1) > 1e-9:
        raise ValueError(
            f"the table P has outcomes {outcomes} whose probabilities sum to {total:.6g}; they "
            "must to one"
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
        marks = tuple(
            (kinds[env.desc[r, c]], int(r), int(c))
            for r, c in np.ndindex(*shape)
            if env.desc[r, c] in kinds
        )
    elif np.prod(getattr(env, "shape", (0,))) == size:
        shape = tuple(env.shape)
    else:
        return None, None
    return Layout(shape, np.zeros(shape, bool), marks), np.stack(
        np.unravel_index(np.arange(size), shape), axis=1
    )
