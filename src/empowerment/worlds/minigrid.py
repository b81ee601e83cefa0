"""MiniGrid environments as exact worlds on the host: a state is written into a private copy,
stepped and read back."""

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from minigrid.core.world_object import WorldObj
from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel
from minigrid.minigrid_env import MiniGridEnv

from .learnable import check_observations, to_frames
from .world import Layout, World

FIXED = ("wall", "floor", "goal", "lava")
"""Objects without a state of their own, so that one instance serves everywhere."""
X, Y, DIRECTION, CARRIED, ENDED = range(-5, 0)
"""Places of the last five numbers of a state."""
LARGEST_SIDE, MOST_KINDS = 256, 255
"""What eight bits can count."""
OF_THE_STATE = ("agent_pos", "agent_dir", "carrying", "step_count", "grid")
"""Attributes of an environment that are written for every step."""


def is_minigrid(env: Any) -> bool:
    return isinstance(env, MiniGridEnv)


class _Drawn(BaseException):
    """A random number was asked for. No `Exception`, so that an environment's own `except` does not
    hide it."""


class _NoChance:
    """Takes the place of the random generator while stepping."""

    def __getattr__(self, name: str) -> Any:
        raise _Drawn


class MiniGridWorld(World):
    """States are rows `uint8[2 * cells + 5]`: the kind of object in every cell, the state of every
    door, the agent's column, row and direction, the kind of object it carries, and whether the
    episode has ended. The number of steps taken is no part of it.

    A kind is a type, a colour and, for boxes, the kind inside. An object that the environment
    itself refers to (the door to open, the ball to fetch) is a kind of its own; other objects that
    look the same are the same.

    Agents see what the environment shows, where wrappers make that an array (ImgObsWrapper). The
    Dict that MiniGrid shows by itself is replaced by a picture of the whole grid.
    """

    outcomes = 1
    on_host = True

    def __init__(self, wrapped: gymnasium.Env, name: str):
        env: Any = wrapped.unwrapped
        if env.agent_pos is None or tuple(env.agent_pos) == (-1, -1):
            raise ValueError(
                f"environment {name!r} has no grid yet; call env.reset(seed=...) first"
            )
        if isinstance(env, RoomGridLevel):
            raise ValueError(
                f"environment {name!r} follows an instruction whose progress is no part of the "
                "grid, so it cannot be "
                "enumerated; use a MiniGrid environment outside of BabyAI"
            )
        if max(env.width, env.height) > LARGEST_SIDE:
            raise ValueError(
                f"environment {name!r} has a grid of {env.width} x {env.height} cells, and at most "
                f"{LARGEST_SIDE} a "
                "side can be enumerated; give learn=True"
            )
        self.name = name
        self._env = _private_copy(env)
        self._space = (
            wrapped.observation_space if isinstance(wrapped.observation_space, spaces.Box) else None
        )
        self._views = _private_views(wrapped, self._env)
        self._width, self._height = env.width, env.height
        self._cells = env.width * env.height
        self._kinds: list[Any] = []
        own = {id(x) for x in _referred(self._env)}
        for thing in [*self._env.grid.grid, self._env.carrying]:
            self._learn(thing, own)
        if len(self._kinds) > MOST_KINDS:
            raise ValueError(
                f"environment {name!r} has {len(self._kinds)} kinds of objects, and at most "
                f"{MOST_KINDS} can be distinguished; give learn=True"
            )
        self._plain = _plain(self._env)
        count = int(env.action_space.n)
        self.actions = tuple(self._env.actions(i).name for i in range(count))
        self.start = self._read(ended=False)
        shape = (self._height, self._width)
        types = [self._kinds[k - 1].type if k else "" for k in self.start[: self._cells]]
        walls = np.array([t == "wall" for t in types]).reshape(shape)
        marks = [
            (t, *divmod(i, self._width))
            for i, t in enumerate(types)
            if t not in ("", "wall", "floor")
        ]
        self.layout = Layout(shape, walls, tuple(marks))
        free = np.array([t in ("", "floor") or self._open(i) for i, t in enumerate(types)])
        self._free = free & self._around(np.array(types).reshape(shape)).ravel()
        for action in range(len(self.actions)):
            self._step(
                self.start, action
            )  # a random environment is refused now rather than half-way
        self._looked = False

    def states(self) -> np.ndarray:
        """Every free cell in four directions, the rest as at the start."""
        rows, columns = np.divmod(np.flatnonzero(self._free), self._width)
        states = np.tile(self.start, (4 * len(rows), 1))
        states[:, X], states[:, Y] = np.repeat(columns, 4), np.repeat(rows, 4)
        states[:, DIRECTION] = np.tile(np.arange(4), len(rows))
        return states

    def _around(self, types: np.ndarray) -> np.ndarray:
        """Cells on this side of the walls: some grids are empty beyond them, up to the edge, where
        no step is possible. Doors are passed, except those that lead there."""
        for closed in (("wall",), ("wall", "door")):
            passable = ~np.isin(types, closed)
            met = np.zeros_like(passable)
            met[self.start[Y], self.start[X]] = True
            while True:
                wider = met.copy()
                for ahead, behind in ((np.s_[1:], np.s_[:-1]), (np.s_[:-1], np.s_[1:])):
                    wider[ahead] |= met[behind]
                    wider[:, ahead] |= met[:, behind]
                wider &= passable
                if (wider == met).all():
                    break
                met = wider
            if not (met[[0, -1]].any() or met[:, [0, -1]].any()):
                break
        return met

    def _refuse_memory(self, space: spaces.Box) -> None:
        """What wrappers show must depend on the state alone, not on what they showed before."""
        other, self._looked = self.start.copy(), True
        other[DIRECTION] = (other[DIRECTION] + 1) % 4
        first, _, again = self._shown(np.stack([self.start, other, self.start]), space)
        if not np.array_equal(first, again, equal_nan=True):
            raise ValueError(
                f"environment {self.name!r} has a wrapper that shows the same state in different "
                "ways; give it without "
                "that, or learn=True"
            )

    def step(self, state: Any, action: Any, outcome: Any) -> np.ndarray:
        state = np.asarray(state)
        batch = np.broadcast_shapes(state.shape[:-1], np.shape(action), np.shape(outcome))
        flat = np.broadcast_to(state, (*batch, state.shape[-1])).reshape(-1, state.shape[-1])
        after = [
            self._step(s, int(a))
            for s, a in zip(flat, np.broadcast_to(action, batch).flat, strict=True)
        ]
        return np.array(after, np.uint8).reshape(*batch, state.shape[-1])

    def probabilities(self, state: Any, action: Any) -> np.ndarray:
        return np.ones((*np.broadcast_shapes(np.shape(state)[:-1], np.shape(action)), 1))

    def observe(self, state: Any) -> np.ndarray:
        """What the wrapped environment shows, or a picture of the grid."""
        state = np.asarray(state)
        batch, flat = state.shape[:-1], state.reshape(-1, state.shape[-1])
        frames = self._pictures(flat) if self._space is None else self._shown(flat, self._space)
        return frames.reshape(*batch, *frames.shape[1:])

    def _shown(self, states: np.ndarray, space: spaces.Box) -> np.ndarray:
        """The environment's own observations, through its wrappers."""
        check_observations(space, self.name)
        if not self._looked:
            self._refuse_memory(space)
        frames = np.zeros((len(states), *space.shape), space.dtype)
        for frame, state in zip(frames, states, strict=True):
            self._write(state)
            seen: Any = type(self._env).gen_obs(self._env)
            for view in self._views:
                seen = view.observation(seen)
            frame[...] = seen
        return to_frames(space, frames)

    def _pictures(self, flat: np.ndarray) -> np.ndarray:
        """One pixel a cell: red for the kind of object, green for doors and the agent's direction,
        blue for what it carries. No two states look the same."""
        picture = np.zeros((len(flat), self._cells, 3), np.uint8)
        scale = 255 // max(len(self._kinds), 1)
        picture[..., 0] = flat[:, : self._cells] * scale
        picture[..., 1] = 50 * flat[:, self._cells : 2 * self._cells]
        picture[..., 2] = 40 * flat[:, ENDED, None]
        agent = np.arange(len(flat)), flat[:, Y].astype(int) * self._width + flat[:, X]
        picture[(*agent, 1)] = 180 + 25 * flat[:, DIRECTION]
        picture[(*agent, 2)] = 255 - flat[:, CARRIED] * (200 // max(len(self._kinds), 1))
        return picture.reshape(-1, self._height, self._width, 3)

    def locate(self, states: Any) -> np.ndarray:
        return np.asarray(states)[..., [Y, X]].astype(np.int64)

    def terminal(self, state: Any) -> Any:
        return np.asarray(state)[..., ENDED] == 1

    def _step(self, state: np.ndarray, action: int) -> np.ndarray:
        if state[ENDED]:
            return state
        self._write(state)
        try:
            *_, terminated, _, _ = self._env.step(action)
        except _Drawn:
            raise ValueError(
                f"environment {self.name!r} draws random numbers while stepping, with odds that it "
                "does not reveal; "
                "it can be learned on but not enumerated"
            ) from None
        except (AssertionError, IndexError):
            raise ValueError(
                f"environment {self.name!r} cannot take a step where the agent looks out of the "
                "grid; put walls around "
                "it, or give learn=True"
            ) from None
        plain = _plain(self._env)
        if plain != self._plain:
            changed = sorted(name for name in plain if plain[name] != self._plain.get(name))
            raise ValueError(
                f"environment {self.name!r} keeps state of its own beside the grid "
                f"({', '.join(changed)}), so it "
                "cannot be enumerated; give learn=True"
            )
        return self._read(bool(terminated))

    def _write(self, state: np.ndarray) -> None:
        """Put the private copy into this state."""
        env, n = self._env, self._cells
        env.grid.grid = [
            self._thing(k, d)
            for k, d in zip(state[:n].tolist(), state[n : 2 * n].tolist(), strict=True)
        ]
        for i, thing in enumerate(env.grid.grid):
            if thing is not None and thing.type not in FIXED:
                thing.cur_pos = (i % self._width, i // self._width)
        env.agent_pos, env.agent_dir = (int(state[X]), int(state[Y])), int(state[DIRECTION])
        env.carrying = self._thing(int(state[CARRIED]), 0)
        if env.carrying is not None:
            env.carrying.cur_pos = (-1, -1)
        env.step_count = 0

    def _thing(self, kind: int, door: int) -> Any:
        if kind == 0:
            return None
        if kind > len(self._kinds):
            raise ValueError(
                f"a state has an object of kind {kind}, and world {self.name!r} has kinds 1 to "
                f"{len(self._kinds)}; "
                "change those that world.states() gives"
            )
        thing = self._kinds[kind - 1]
        if thing.type not in FIXED and not thing.referred:
            thing = copy.copy(thing)
        if thing.type == "door":
            thing.is_open, thing.is_locked = door == 1, door == 3
        return thing

    def reader(self, env: MiniGridEnv) -> Callable[[], np.ndarray]:
        """A function that gives the present state of the environment that this world was just made
        from, until that is reset or ends."""
        book: dict[int, tuple[Any, int]] = {}

        def note(thing: Any, kind: int) -> None:
            if thing is not None:
                book[id(thing)] = thing, kind  # the thing itself too, so that its id stays its own
                note(
                    thing.contains,
                    0 if thing.contains is None else self._kinds[kind - 1].contains.kind,
                )

        for thing, kind in zip(env.grid.grid, self.start[: self._cells].tolist(), strict=True):
            note(thing, kind)
        note(env.carrying, int(self.start[CARRIED]))
        return lambda: self._row(env, lambda thing: book[id(thing)][1], ended=False)

    def signature(self) -> tuple[Any, ...]:
        """Equal for two worlds whose states mean the same, wherever their agents start."""
        kinds = tuple((kind.look, kind.referred) for kind in self._kinds)
        return self.start[:X].tobytes(), kinds, tuple(sorted(self._plain.items()))

    def _read(self, ended: bool) -> np.ndarray:
        """The state that the private copy is in."""
        return self._row(self._env, self._kind, ended)

    def _kind(self, thing: Any) -> int:
        if (type(thing), thing.type, thing.color) != thing.look[:3]:
            raise ValueError(
                f"environment {self.name!r} has an object ({thing.type}) that changes while "
                "stepping, so its states "
                "cannot be numbered; it can be learned on but not enumerated"
            )
        return thing.kind

    def _row(self, env: MiniGridEnv, kind_of: Callable[[Any], int], ended: bool) -> np.ndarray:
        things: list[Any] = [*env.grid.grid, env.carrying]
        try:
            kinds = [0 if x is None else kind_of(x) for x in things]
        except (AttributeError, KeyError):
            raise ValueError(
                f"environment {self.name!r} makes new objects while stepping, so its states cannot "
                "be numbered; "
                "it can be learned on but not enumerated"
            ) from None
        doors = [
            1 + x.encode()[2] if x is not None and x.type == "door" else 0 for x in things[:-1]
        ]
        x, y = env.agent_pos
        return np.array([*kinds[:-1], *doors, x, y, env.agent_dir, kinds[-1], ended], np.uint8)

    def _learn(self, thing: Any, own: set[int]) -> int:
        """Mark an object, and what is inside it, with the number of its kind; 0 is nothing."""
        if thing is None:
            return 0
        inside = self._learn(thing.contains, own)
        thing.referred = id(thing) in own
        thing.look = (type(thing), thing.type, thing.color, inside)
        alike = (
            i
            for i, k in enumerate(self._kinds)
            if k.look == thing.look and not (k.referred or thing.referred)
        )
        number = next(alike, len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(thing)
        thing.kind = number + 1
        return thing.kind

    def _open(self, cell: int) -> bool:
        return bool(self.start[self._cells + cell] == 1)


def _private_copy(env: MiniGridEnv) -> MiniGridEnv:
    """A copy that shares nothing with the user's environment, neither draws nor observes, and has
    no chance."""
    twin = copy.copy(env)
    windows = {"window": None, "clock": None, "render_mode": None}
    memo: dict[int, Any] = {id(env): twin}  # what refers to the environment refers to its copy
    twin.__dict__ = {k: copy.deepcopy(v, memo) for k, v in env.__dict__.items() if k not in windows}
    twin.__dict__.update(windows, _np_random=_NoChance(), gen_obs=dict)
    return twin


def _private_views(env: gymnasium.Env, twin: MiniGridEnv) -> list[Any]:
    """Copies of the observation wrappers, innermost first, around the private copy."""
    views = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.ObservationWrapper):
            views.insert(0, env)
        env = env.env
    below: gymnasium.Env = twin
    for i, view in enumerate(views):
        views[i] = copy.copy(view)
        views[i].__dict__ = {k: copy.deepcopy(v) for k, v in vars(view).items() if k != "env"} | {
            "env": below
        }
        if hasattr(views[i], "update_running_mean"):
            views[i].update_running_mean = False
        below = views[i]
    return views


def _referred(env: MiniGridEnv) -> list[WorldObj]:
    """Objects that the environment's own attributes refer to."""
    found = []
    for name, value in vars(env).items():
        if name not in ("grid", "carrying"):
            found += [
                x
                for x in (value if isinstance(value, list | tuple) else [value])
                if isinstance(x, WorldObj)
            ]
    return found


def _plain(env: MiniGridEnv) -> dict[str, Any]:
    """Numbers and texts that an environment keeps beside its grid: what it aims at, what it
    counts."""
    simple = (bool, int, float, str, type(None))

    def is_plain(value: Any) -> bool:
        return isinstance(value, simple) or (
            isinstance(value, tuple) and all(isinstance(x, simple) for x in value)
        )

    return {
        name: value
        for name, value in vars(env).items()
        if name not in OF_THE_STATE and is_plain(value)
    }
