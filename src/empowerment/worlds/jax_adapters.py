"""Environments of gymnax, XLand-MiniGrid, NAVIX and Jumanji as pure functions, without their clocks
and resets. None of these packages is imported here."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

CLOCKS = ("time", "t", "step_count", "step_num")
"""Names of step counters in states and observations: a time limit is no part of a state."""


class Dynamics(NamedTuple):
    """What a world is made from."""

    step: Callable[[Any, Any, Any], Any]
    """`step(key, state, action)` gives the next state"""
    start: Any
    actions: int
    observe: Callable[[Any], Any] | None
    terminal: Callable[[Any], Any] | None
    name: str
    probabilities: Callable[[Any, Any], Any] | None = None
    """`probabilities(state, action)` of outcomes whose number `step` is given in place of a key"""


class Episode(NamedTuple):
    """A state of somebody else's environment, and whether the episode is over."""

    state: Any
    done: Any


def adapted(given: Any, seed: int) -> Dynamics | None:
    """The dynamics of an environment, or of a pair of it and its parameters; None for anything
    else."""
    env, params = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    for kind in type(env).__mro__:
        adapter = ADAPTERS.get(kind.__module__.split(".")[0])
        if adapter is not None:
            return adapter(env, params, jax.random.key(seed))
    return None


def _gymnax(env: Any, params: Any, key: Any) -> Dynamics:
    params = env.default_params if params is None else params
    if type(env.action_space(params)).__name__ != "Discrete":
        raise ValueError(
            f"environment {env.name!r} has actions that are not numbered; give a step function of "
            "your own with actions="
        )
    _, first = env.reset_env(key, params)

    def step(key: Any, state: Any, action: Any) -> Any:
        return env.step_env(key, timeless(state, first), action, params)[1]

    return Dynamics(
        step,
        first,
        int(env.num_actions),
        lambda state: env.get_obs(timeless(state, first), params),
        lambda state: env.is_terminal(timeless(state, first), params),
        str(env.name),
    )


def _xminigrid(env: Any, params: Any, key: Any) -> Dynamics:
    if "AutoReset" in type(env).__name__:
        raise ValueError(
            f"environment {type(env).__name__!r} resets itself, which hides where episodes end; "
            "give the environment beneath it"
        )
    if params is None:
        params = env.default_params()
    first = env.reset(params, key)

    def step(key: Any, episode: Episode, action: Any) -> Episode:
        before = first.replace(state=timeless(episode.state, first.state))
        after = env.step(params, before, action)
        return Episode(after.state, after.last())

    def observe(episode: Episode) -> Any:
        """The whole grid: kinds and colours of tiles, the agent with its direction, and what it
        carries."""
        grid, agent = episode.state.grid, episode.state.agent
        here = jnp.zeros(grid.shape[:2], jnp.uint8)
        here = here.at[tuple(agent.position)].set((60 * (agent.direction + 1)).astype(jnp.uint8))
        carried = jnp.broadcast_to(15 * agent.pocket, grid.shape)
        planes = [15 * grid, here[..., None], carried]
        return jnp.concatenate([x.astype(jnp.uint8) for x in planes], axis=-1)

    start = Episode(first.state, jnp.zeros((), bool))
    actions = int(env.num_actions(params))
    return Dynamics(step, start, actions, observe, _done, type(env).__name__)


def _navix(env: Any, params: Any, key: Any) -> Dynamics:
    first = env.reset(key)

    def step(key: Any, episode: Episode, action: Any) -> Episode:
        after = env._step(timeless(episode.state, first), action)
        return Episode(after, after.is_termination())

    def observe(episode: Episode) -> Any:
        return env.observation_fn(episode.state.state)

    start = Episode(first, jnp.zeros((), bool))
    return Dynamics(step, start, len(env.action_set), observe, _done, type(env).__name__)


def _jumanji(env: Any, params: Any, key: Any) -> Dynamics:
    first, _ = env.reset(key)
    choices = getattr(env.action_spec, "num_values", None)
    if choices is None or jnp.ndim(choices):
        raise ValueError(
            f"environment {type(env).__name__!r} has actions {env.action_spec}; wrap it so that "
            "they are numbered"
        )

    def step(key: Any, episode: Episode, action: Any) -> Episode:
        after, timestep = env.step(timeless(episode.state, first), action)
        return Episode(after, timestep.last())

    def observe(episode: Episode) -> Any:
        """All numbers of the state except keys and clocks."""
        named = jax.tree_util.tree_flatten_with_path(episode.state)[0]
        return jnp.concatenate(
            [
                jnp.ravel(x).astype(jnp.float32)
                for path, x in named
                if _name(path) not in (*CLOCKS, "key")
            ]
        )

    start = Episode(first, jnp.zeros((), bool))
    return Dynamics(step, start, int(choices), observe, _done, type(env).__name__)


def _done(episode: Episode) -> Any:
    return episode.done


def timeless(state: Any, first: Any) -> Any:
    """The state with its clocks as at the start."""

    def at_start(path: Any, now: Any, then: Any) -> Any:
        return jnp.asarray(then) if _name(path) in CLOCKS else now

    return jax.tree_util.tree_map_with_path(at_start, state, first)


def _name(path: Any) -> str:
    """The last name on the path to a leaf."""
    return jax.tree_util.keystr(path[-1:]).strip(".[]'\"") if path else ""


ADAPTERS: dict[str, Callable[[Any, Any, Any], Dynamics]] = {
    "gymnax": _gymnax,
    "xminigrid": _xminigrid,
    "navix": _navix,
    "jumanji": _jumanji,
}
"""By the package that a class comes from."""
