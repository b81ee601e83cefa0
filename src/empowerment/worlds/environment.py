"""Every built-in world as a Gymnasium environment, one at a time or a whole batch at once."""

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .registry import make
from .scene import scene
from .world import World, leaves, pick_outcome, take

CELL = 16  # pixels of a rendered cell
LARGE = 200  # pixels of a picture that is no map of cells
# bound of numbers that have none of their own; spaces without bounds cannot be sampled evenly
FAR = 1e6


def _observation_space(world: World) -> gymnasium.spaces.Box:
    sample = np.asarray(world.observe(world.start))
    low, high = (
        (0, 255)
        if sample.dtype == np.uint8
        else (0, 1)
        if world.continuous is None
        else (-FAR, FAR)
    )
    return gymnasium.spaces.Box(low, high, sample.shape, sample.dtype.type)


def _action_space(world: World) -> gymnasium.spaces.Discrete | gymnasium.spaces.Box:
    if world.continuous is None:
        return gymnasium.spaces.Discrete(len(world.actions))
    bound = 1.0 if world.continuous.power is None else FAR
    return gymnasium.spaces.Box(-bound, bound, (world.continuous.size,), np.float32)


def _checked(world: World, actions: Any, count: tuple[int, ...] = ()) -> np.ndarray:
    """Actions for `count` copies; a ValueError says what they should be."""
    space = _action_space(world)
    try:
        array = np.asarray(
            actions, space.dtype if isinstance(space, gymnasium.spaces.Box) else np.int64
        )
    except (TypeError, ValueError):
        raise ValueError(f"action {actions!r} is no number; give {_allowed(space)}") from None
    if isinstance(space, gymnasium.spaces.Box):
        good = array.shape == (*count, *space.shape) and bool(
            np.all((space.low <= array) & (array <= space.high))
        )
    else:
        whole = np.array_equal(array, np.asarray(actions))
        good = whole and array.shape == count and bool(np.all((array >= 0) & (array < space.n)))
    if not good:
        raise ValueError(f"action {actions!r} is not possible; actions must be {_allowed(space)}")
    return array


def _allowed(space: Any) -> str:
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"whole numbers in 0..{space.n - 1}, one for each copy"
    return (
        f"{space.shape[0]} finite numbers between {space.low[0]:g} and {space.high[0]:g}, for each "
        "copy"
    )


def _drawn(world: World, state: Any) -> np.ndarray:
    """A picture at a viewable size: each cell a square."""
    picture = scene(world, state)
    return (
        picture
        if max(picture.shape[:2]) >= LARGE
        else picture.repeat(CELL, axis=0).repeat(CELL, axis=1)
    )


def _start(
    world: World, options: dict[str, Any] | None, rng: np.random.Generator, count: int
) -> Any:
    """`count` starts: the world's own, or anywhere with `options={"start": "anywhere"}`."""
    where = (options or {}).get("start", "own")
    if where not in ("own", "anywhere"):
        raise ValueError(f"options['start']={where!r} is unknown; give 'own' or 'anywhere'")
    if where == "own":
        lone = [np.asarray(x)[None].repeat(count, axis=0) for x in leaves(world.start)]
        return type(world.start)(*lone) if isinstance(world.start, tuple) else lone[0]
    states = world.states()
    return take(states, rng.integers(len(leaves(states)[0]), size=count))


class WorldEnv(gymnasium.Env[np.ndarray, Any]):
    """One world. There is no reward: empowerment is what the agent brings along."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}  # pyright: ignore

    def __init__(
        self, world: str | World = "two-rooms", render_mode: str | None = None, **options: Any
    ):
        self.world = world if isinstance(world, World) else make(world, **options)
        self.observation_space = _observation_space(self.world)
        self.action_space = _action_space(self.world)
        self.render_mode = render_mode
        self._state = self.world.start

    @property
    def state(self) -> Any:
        """The state that the world is in."""
        return self._state

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._state = take(_start(self.world, options, self.np_random, 1), 0)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        action = _checked(self.world, action)
        outcome = self.world.draw_outcome(self._state, action, self.np_random)
        self._state = self.world.step(self._state, action, outcome)
        return self._observe(), 0.0, bool(self.world.terminal(self._state)), False, {}

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _drawn(self.world, self._state) if self.render_mode == "rgb_array" else None

    def _observe(self) -> np.ndarray:
        return np.array(self.world.observe(self._state))


class WorldVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many copies of one world, stepped at once in one compiled call. Ended copies restart at their
    next step."""

    def __init__(
        self,
        num_envs: int = 1,
        world: str | World = "two-rooms",
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ):
        import jax

        self.num_envs = num_envs
        self.world = world if isinstance(world, World) else make(world, **options)
        self.metadata = {**WorldEnv.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.render_mode = render_mode
        self.single_observation_space = _observation_space(self.world)
        self.single_action_space = _action_space(self.world)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._limit = max_episode_steps
        host = self.world.on_host
        self._advance = self._step_batch if host else jax.jit(self._step_batch)
        self._look = self.world.observe if host else jax.jit(self.world.observe)

    def _step_batch(
        self, states: Any, actions: Any, noise: Any, restart: Any, starts: Any
    ) -> tuple[Any, Any, Any]:
        import jax
        import jax.numpy as jnp

        if self.world.noise:
            outcome = noise
        elif not self.world.deterministic:
            outcome = pick_outcome(self.world.probabilities(states, actions), noise)
        else:
            outcome = jnp.zeros_like(actions)
        moved = self.world.step(states, actions, outcome)
        new = jax.tree.map(
            lambda a, b: jnp.where(restart.reshape((-1,) + (1,) * (a.ndim - 1)), b, a),
            moved,
            starts,
        )
        return new, self.world.observe(new), self.world.terminal(new)

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed if seed is None or isinstance(seed, int) else seed[0])
        self._options = options
        self._states = _start(self.world, options, self.np_random, self.num_envs)
        self._ended = np.zeros(self.num_envs, bool)
        self._ages = np.zeros(self.num_envs, np.int64)
        return np.array(self._look(self._states)), {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        actions = _checked(self.world, actions, (self.num_envs,))
        restart = self._ended
        starts = (
            _start(self.world, self._options, self.np_random, self.num_envs)
            if restart.any()
            else self._states
        )
        normal = (self.num_envs, self.world.noise)
        rng = self.np_random
        noise = (
            rng.standard_normal(normal, np.float32)
            if self.world.noise
            else rng.random(self.num_envs, np.float32)
        )
        self._states, observation, terminal = self._advance(
            self._states, actions, noise, restart, starts
        )
        self._ages = np.where(restart, 0, self._ages + 1)
        terminated = np.array(terminal) & ~restart
        truncated = (
            np.zeros_like(terminated)
            if self._limit is None
            else (self._ages >= self._limit) & ~terminated
        )
        self._ended = terminated | truncated
        return np.array(observation), np.zeros(self.num_envs), terminated, truncated, {}

    def render(self) -> tuple[np.ndarray, ...] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.render_mode != "rgb_array":
            return None
        return tuple(_drawn(self.world, take(self._states, i)) for i in range(self.num_envs))
