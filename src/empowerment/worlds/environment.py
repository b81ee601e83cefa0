"""Every built-in world as a Gymnasium environment, one at a time or a whole batch at once."""

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from .registry import make
from .world import World, leaves, take

CELL = 16  # pixels of a rendered cell


def _observation_space(world: World) -> gymnasium.spaces.Box:
    sample = np.asarray(world.observe(world.start))
    high = 255 if sample.dtype == np.uint8 else 1
    return gymnasium.spaces.Box(0, high, sample.shape, sample.dtype.type)


def _picture(observation: np.ndarray) -> np.ndarray:
    """An observation at a viewable size: each cell a square; a vector as a row of grey squares."""
    if observation.ndim == 1:
        grey = (255 * (1 - observation)).astype(np.uint8)
        observation = np.repeat(grey[None, :, None], 3, axis=-1)
    return observation.repeat(CELL, axis=0).repeat(CELL, axis=1)


def _start(world: World, options: dict[str, Any] | None, rng: np.random.Generator, count: int) -> Any:
    """`count` starts: the world's own, or anywhere with `options={"start": "anywhere"}`."""
    where = (options or {}).get("start", "own")
    if where not in ("own", "anywhere"):
        raise ValueError(f"options['start']={where!r} is unknown; give 'own' or 'anywhere'")
    if where == "own":
        lone = [np.asarray(x)[None].repeat(count, axis=0) for x in leaves(world.start)]
        return type(world.start)(*lone) if isinstance(world.start, tuple) else lone[0]
    states = world.states()
    return take(states, rng.integers(len(leaves(states)[0]), size=count))


class WorldEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One world. There is no reward: empowerment is what the agent brings along."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}  # pyright: ignore

    def __init__(self, world: str | World = "two-rooms", render_mode: str | None = None, **options: Any):
        self.world = world if isinstance(world, World) else make(world, **options)
        self.observation_space = _observation_space(self.world)
        self.action_space = gymnasium.spaces.Discrete(len(self.world.actions))
        self.render_mode = render_mode
        self._state = self.world.start

    @property
    def state(self) -> Any:
        """The state that the world is in."""
        return self._state

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._state = take(_start(self.world, options, self.np_random, 1), 0)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not one of 0..{len(self.world.actions) - 1}")
        action = np.asarray(action)
        odds = self.world.probabilities(self._state, action)
        chance = np.asarray(self.np_random.choice(len(odds), p=odds) if len(odds) > 1 else 0)
        self._state = self.world.step(self._state, action, chance)
        return self._observe(), 0.0, bool(self.world.terminal(self._state)), False, {}

    def render(self) -> np.ndarray | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _picture(self._observe()) if self.render_mode == "rgb_array" else None

    def _observe(self) -> np.ndarray:
        return np.asarray(self.world.observe(self._state))


class WorldVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many copies of one world, stepped at once in one compiled call. Ended copies restart at their next step."""

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
        self.single_action_space = gymnasium.spaces.Discrete(len(self.world.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._limit = max_episode_steps
        self._advance = jax.jit(self._step_batch)
        self._look = jax.jit(self.world.observe)

    def _step_batch(self, states: Any, actions: Any, noise: Any, restart: Any, starts: Any) -> tuple[Any, Any, Any]:
        import jax
        import jax.numpy as jnp

        if self.world.chances > 1:
            levels = jnp.cumsum(self.world.probabilities(states, actions), axis=-1)
            chance = jnp.minimum((noise[:, None] > levels).sum(-1), self.world.chances - 1)
        else:
            chance = jnp.zeros_like(actions)
        moved = self.world.step(states, actions, chance)
        new = jax.tree.map(lambda a, b: jnp.where(restart.reshape((-1,) + (1,) * (a.ndim - 1)), b, a), moved, starts)
        return new, self.world.observe(new), self.world.terminal(new)

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed if seed is None or isinstance(seed, int) else seed[0])
        self._options = options
        self._states = _start(self.world, options, self.np_random, self.num_envs)
        self._ended = np.zeros(self.num_envs, bool)
        self._ages = np.zeros(self.num_envs, np.int64)
        return np.array(self._look(self._states)), {}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        actions = np.asarray(actions, np.int32)
        if actions.shape != (self.num_envs,) or actions.min() < 0 or actions.max() >= len(self.world.actions):
            raise ValueError(
                f"actions must be {self.num_envs} whole numbers in 0..{len(self.world.actions) - 1}, "
                f"got shape {actions.shape}"
            )
        restart = self._ended
        starts = _start(self.world, self._options, self.np_random, self.num_envs) if restart.any() else self._states
        noise = self.np_random.random(self.num_envs, np.float32)
        self._states, observation, terminal = self._advance(self._states, actions, noise, restart, starts)
        self._ages = np.where(restart, 0, self._ages + 1)
        terminated = np.array(terminal) & ~restart
        truncated = np.zeros_like(terminated) if self._limit is None else (self._ages >= self._limit) & ~terminated
        self._ended = terminated | truncated
        return np.array(observation), np.zeros(self.num_envs), terminated, truncated, {}

    def render(self) -> tuple[np.ndarray, ...] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.render_mode != "rgb_array":
            return None
        return tuple(_picture(x) for x in np.array(self._look(self._states)))
