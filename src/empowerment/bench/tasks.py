"""The tasks of the benchmark.

To add one, add an entry to `_listed` and store its truth by `empowerment bench verify --store --set
NAME`.

A task is a world, a horizon and the states whose empowerment is asked for. Its truth is worked out
by the exact part of the package and stored beside this file (`certificates`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import gymnasium
import numpy as np

from ..exact import exact
from ..landscape import Landscape
from ..reach import closure, each
from ..worlds.distractor import Distractor
from ..worlds.environment import WorldVectorEnv
from ..worlds.generator import generate_world
from ..worlds.grid import GridState
from ..worlds.registry import did_you_mean, make
from ..worlds.third_party import from_gymnasium
from ..worlds.world import State, World, leaves, take
from .certificates import Truth, stored
from .channels import CHANNELS, Channel
from .continuous import bounded_force

Kind = Literal["settable", "opaque", "channel"]
COPIES, EPISODE = 64, 200
"""Copies of an opaque environment that are stepped together, and steps after which each is reset.
"""
MOST_MET, MOST_ASKED = 2**18, 512
"""States of an opaque environment that are looked for, and that are asked for, at most."""


@dataclass(frozen=True)
class Task:
    """One question: how empowered is an agent in each of these states?"""

    name: str
    world: Callable[[], Any]
    """Makes what an estimator gets: a world, an opaque environment as a world, or a channel."""
    horizon: int
    tags: tuple[str, ...]
    kind: Kind = "settable"
    """`settable`: any state can be set; `opaque`: it can only be reset and stepped; `channel`: no
    state at all."""
    exact_world: Callable[[], World] | None = None
    """Makes the enumerable world that the truth is of, where `world` is not that itself."""
    solve: Callable[[World, int, State], Landscape] = exact
    """Works out the truth from the world, the horizon and the states."""
    certified: bool = True
    """Whether `lower` and `upper` are proved; otherwise the truth is an approximation, and both are
    NaN."""
    see: Callable[["Task", State], Any] | None = None
    """What is seen in states of `landscape_world`, where that is not what this world itself shows.
    """
    minutes: float = 10.0
    """Budget: what a training should take at most on two cores."""
    version: int = 1
    """Grows whenever the task's values change."""

    @property
    def observation(self) -> str:
        """What is seen: pixels, a vector, or nothing (channels)."""
        if self.kind == "channel":
            return "none"
        return "pixels" if self.observations().ndim == 4 else "vector"

    def landscape_world(self) -> World:
        """The world whose states the values are of."""
        return self.world() if self.exact_world is None else self.exact_world()

    def states(self) -> State:
        """The states of `landscape_world` that the task scores: its own list or, if the environment
        can only be reset and stepped, a sample of the reachable ones. Terminal states are excluded.
        """
        world = self.landscape_world()
        shown = met(world) if self.kind == "opaque" else world.states()
        return take(shown, ~np.asarray(world.terminal(shown)))

    def observations(self) -> np.ndarray:
        """What is seen in these states, in order; a channel has one state, which shows nothing."""
        if self.kind == "channel":
            return np.zeros((1, 1), np.float32)
        states = self.states()
        return np.asarray(
            self.landscape_world().observe(states) if self.see is None else self.see(self, states)
        )

    def truth(self) -> Truth:
        """The stored certified values."""
        return stored(self.name, self.version)

    def compute(self) -> Truth:
        """The same, worked out now."""
        if self.kind == "channel":
            channel: Channel = self.world()
            found = channel.truth()
            return Truth(*(np.array([value]) for value in found))
        land = self.solve(self.landscape_world(), self.horizon, self.states())
        return Truth(land.nats, land.lower, land.upper)

    def __len__(self) -> int:
        return 1 if self.kind == "channel" else len(leaves(self.states())[0])


def met(world: World) -> State:
    """Evenly chosen states of all that can be met from the start."""
    found = closure(world, take(each(world.start, np.asarray), None), MOST_MET).states
    count = len(leaves(found)[0])
    return take(found, np.linspace(0, count - 1, min(count, MOST_ASKED)).astype(int))


def tasks(which: str = "all") -> tuple[Task, ...]:
    """All tasks, or those with this tag or name.

    >>> len(tasks()) >= 40
    True
    >>> tasks("two-rooms")[0].horizon
    5
    """
    every = _by_name()
    if which == "all":
        return tuple(every.values())
    found = tuple(task for task in every.values() if which == task.name or which in task.tags)
    if not found:
        known = sorted({"all", *every, *(tag for task in every.values() for tag in task.tags)})
        sets = ", ".join(sorted({tag for task in every.values() for tag in task.tags}))
        raise ValueError(
            f"set {which!r} is unknown{did_you_mean(which, known)}; give all, a task's name, or "
            f"one of {sets}"
        )
    return found


def task_named(name: str) -> Task:
    """One task by its name."""
    if name not in _by_name():
        raise ValueError(
            f"task {name!r} is unknown{did_you_mean(name, _by_name())}; see 'empowerment bench "
            "list'"
        )
    return _by_name()[name]


@cache
def _by_name() -> dict[str, Task]:
    found: dict[str, Task] = {}
    for task in _all_tasks():
        if task.name in found:
            raise ValueError(f"two tasks are called {task.name!r}; give each a name of its own")
        found[task.name] = task
    return found


def environment(name: str, seed: int = 0, **options: Any) -> gymnasium.Env:
    """A registered environment, reset with a seed of its own; MiniGrid is seen as a picture of the
    whole grid."""
    if not name.startswith("MiniGrid"):
        return gymnasium.make(name, **options)
    try:
        from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper
    except ImportError:
        raise ValueError(
            'MiniGrid tasks need minigrid; install it with: pip install ".[gym-extra]" in the clone'
        ) from None

    env = ImgObsWrapper(RGBImgObsWrapper(gymnasium.make(name, **options), tile_size=4))
    env.reset(seed=seed)
    return env


class SameGrid(gymnasium.Wrapper):
    """Resets a MiniGrid environment with one and the same seed, so that its grid stays as it is."""

    def __init__(self, env: gymnasium.Env, seed: int = 0):
        super().__init__(env)
        self._seed = seed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=self._seed, options=options)


class Anywhere(gymnasium.vector.VectorWrapper):
    """Starts every episode at a random place."""

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options={"start": "anywhere"})


def _gym(name: str, **options: Any) -> World:
    return from_gymnasium(environment(name, **options))


def _opaque(build: Callable[[], World], anywhere: bool = False) -> World:
    """A world of ours that can only be reset and stepped."""
    env: Any = WorldVectorEnv(COPIES, build(), max_episode_steps=EPISODE)
    return from_gymnasium(Anywhere(env) if anywhere else env)


def _opaque_gym(name: str, **options: Any) -> World:
    """Somebody else's environment that can only be reset and stepped."""
    return from_gymnasium(partial(_same_grid, name, **options), learn=True, copies=COPIES)


def _same_grid(name: str, **options: Any) -> gymnasium.Env:
    env = environment(name, **options)
    return SameGrid(env) if name.startswith("MiniGrid") else env


def _distracted(name: str) -> World:
    return Distractor(make(name))  # pyright: ignore[reportArgumentType] - these are grids


def _see_distracted(task: Task, states: State) -> Any:
    world: Distractor = task.world()
    return world.observe(world.extend(GridState(*states)))


PAPER = (
    "open-room",
    "cross-room",
    "two-rooms",
    "box-empty",
    "box-fixed",
    "box-movable",
    "box-row",
    "key-door",
    "lava-corridor",
    "lava-maze",
    "tree",
)
CORE = {
    "two-rooms",
    "box-movable",
    "key-door",
    "lava-maze",
    "two-rooms-slip-0.3",
    "frozen-lake-8x8",
    "taxi",
    "minigrid-four-rooms",
    "minigrid-door-key",
    "rooms-0",
    "boxes-0",
    "opaque-two-rooms",
    "opaque-frozen-lake-8x8",
    "point-mass",
    "pendulum",
    "channel-spikes",
    "distractor-two-rooms",
}
"""One of each kind: what `empowerment bench run` runs by default."""
MINIGRID = {
    "empty": "MiniGrid-Empty-6x6-v0",
    "four-rooms": "MiniGrid-FourRooms-v0",
    "door-key": "MiniGrid-DoorKey-6x6-v0",
    "unlock": "MiniGrid-Unlock-v0",
    "lava-gap": "MiniGrid-LavaGapS6-v0",
}


def _all_tasks() -> Iterator[Task]:
    for task in _listed():
        core = ("core",) if task.name in CORE else ()
        yield replace(task, tags=(*task.tags, *core))


def _listed() -> Iterator[Task]:
    for name in PAPER:
        yield Task(name, partial(make, name), 5, ("paper",))
    for horizon in (1, 2, 3, 4, 6, 7, 8, 9, 10):
        yield Task(f"two-rooms-k{horizon}", partial(make, "two-rooms"), horizon, ("horizon",))
    yield Task("two-rooms-slip-0.1", partial(make, "two-rooms", slip=0.1), 5, ("slip",))
    yield Task("two-rooms-slip-0.3", partial(make, "two-rooms", slip=0.3), 3, ("slip",))
    yield Task("frozen-lake-4x4", partial(_gym, "FrozenLake-v1"), 3, ("gymnasium", "slip"))
    yield Task("frozen-lake-8x8", partial(_gym, "FrozenLake8x8-v1"), 3, ("gymnasium", "slip"))
    yield Task("taxi", partial(_gym, "Taxi-v4"), 3, ("gymnasium",))
    yield Task("cliff-walking", partial(_gym, "CliffWalking-v1"), 5, ("gymnasium",))
    for name, env in MINIGRID.items():
        yield Task(f"minigrid-{name}", partial(_gym, env), 3, ("minigrid",))
    for kind, seeds in {
        "rooms": 3,
        "boxes": 3,
        "key-door": 2,
        "lava-corridor": 2,
        "lava-maze": 2,
    }.items():
        for seed in range(seeds):
            yield Task(f"{kind}-{seed}", partial(generate_world, kind, seed), 5, ("held-out",))
    yield from _opaque_twins()
    yield from _others()


def _opaque_twins() -> Iterator[Task]:
    """The same worlds, which can only be acted in."""
    ours: dict[str, tuple[Callable[[], World], int]] = {
        "open-room": (partial(make, "open-room"), 5),
        "cross-room": (partial(make, "cross-room"), 5),
        "two-rooms": (partial(make, "two-rooms"), 5),
        "two-rooms-slip-0.1": (partial(make, "two-rooms", slip=0.1), 3),
        "key-door": (partial(make, "key-door"), 5),
        "box-movable": (partial(make, "box-movable"), 5),
        "lava-corridor": (partial(make, "lava-corridor"), 5),
    }
    for name, (build, horizon) in ours.items():
        yield _twin(name, partial(_opaque, build), horizon, build)
    rooms = partial(make, "two-rooms")
    yield _twin("two-rooms-anywhere", partial(_opaque, rooms, True), 5, rooms)
    theirs = {
        "frozen-lake-8x8": "FrozenLake8x8-v1",
        "taxi": "Taxi-v4",
        "minigrid-door-key": "MiniGrid-DoorKey-6x6-v0",
        "minigrid-unlock": "MiniGrid-Unlock-v0",
    }
    for name, env in theirs.items():
        yield _twin(name, partial(_opaque_gym, env), 3, partial(_gym, env))


def _twin(
    name: str, world: Callable[[], World], horizon: int, exact_world: Callable[[], World]
) -> Task:
    return Task(f"opaque-{name}", world, horizon, ("opaque",), "opaque", exact_world, version=2)


def linearised(world: World, horizon: int, states: State) -> Landscape:
    """Water-filling around the quiet trajectory: an approximation, in which nothing is proved."""
    from ..model_based.linearised import (
        linearised as approximate,
    )  # needs JAX, which listing tasks does not

    return approximate(world, horizon, states)


def _channel(name: str) -> Channel:
    return CHANNELS[name]


def _others() -> Iterator[Task]:
    mass = partial(make, "point-mass")
    yield Task("point-mass", mass, 3, ("continuous",))
    yield Task("point-mass-2d", partial(make, "point-mass", dimensions=2), 2, ("continuous",))
    bounded = partial(make, "point-mass", power=None)
    yield Task("point-mass-bounded", bounded, 1, ("continuous",), solve=bounded_force)
    pendulum = partial(make, "pendulum")
    yield Task("pendulum", pendulum, 3, ("continuous",), solve=linearised, certified=False)
    for name in ("two-rooms", "cross-room"):
        grid = {"exact_world": partial(make, name), "see": _see_distracted}
        yield Task(f"distractor-{name}", partial(_distracted, name), 5, ("distractor",), **grid)
    for name in CHANNELS:
        yield Task(f"channel-{name}", partial(_channel, name), 1, ("channel",), "channel")
