"""Empowerment as an intrinsic reward for any reinforcement-learning library, through Gymnasium
wrappers.

The reward of a step is made from E(s') in nats, the empowerment of the state that the step led to;
where an episode terminates it is 0, since nothing can be brought about any more.
"""

import os
from hashlib import sha1
from typing import Any, Protocol, cast, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from .behaviour.value import Empowerment, Learning, Value, exact_value
from .exact import check_horizon, exact
from .landscape import Landscape
from .worlds.beneath import Beneath
from .worlds.learnable import check_rewards, checked_frames, final_observations
from .worlds.registry import did_you_mean
from .worlds.third_party import name_of
from .worlds.world import World, identify

MODES = ("add", "replace", "shape", "info")
MOST_WORLDS = 64
"""Grids whose exact values are remembered, where an environment draws another one at each reset."""
APART = 1e-6
"""Nats by which exact values of one state may differ."""
NOTHING_YET = 1e-6
"""Nats: a smaller root mean square says nothing of how large values are."""
MOST_PICTURES = 2**18
"""Pictures whose learned values are remembered."""


def mix(mode: str, reward: Any, before: Any, after: Any, scale: float, gamma: float) -> Any:
    """The reward of a step from E(s) to E(s').

    add: r + scale E(s'). replace: scale E(s').
    shape: r + scale (γ E(s') - E(s)), which leaves the best policy as it is
    (Ng, Harada and Russell 1999). info: r.
    """
    if mode == "add":
        return reward + scale * after
    if mode == "replace":
        return scale * after
    if mode == "shape":
        return reward + scale * (gamma * after - before)
    return reward


class RunningScale:
    """Root mean square of all values so far. Zero stays zero, so that the end of an episode is
    still worth nothing.

    As long as all values were zero, or there were none, they are left as they are.
    """

    def __init__(self) -> None:
        self.count, self.mean_square = 0, 0.0

    def update(self, values: np.ndarray) -> None:
        self.count += len(values)
        self.mean_square += (np.square(values).sum() - len(values) * self.mean_square) / max(
            self.count, 1
        )

    def apply(self, values: np.ndarray) -> np.ndarray:
        scale = np.sqrt(self.mean_square)
        return values / scale if scale > NOTHING_YET else values


class _Mixing:
    """What the wrapper and its vector twin share: arguments and running normalisation."""

    update_running_mean = True
    """Set to False to freeze the normalisation, as for evaluation."""

    def _settle(self, scale: float, mode: str, gamma: float, normalise: bool) -> None:
        if mode not in MODES:
            raise ValueError(
                f"mode={mode!r} is unknown{did_you_mean(str(mode), MODES)}; give one of "
                f"{', '.join(MODES)}"
            )
        if not np.isfinite(scale):
            raise ValueError(f"scale={scale!r} must be a number")
        if not 0 <= gamma <= 1:
            raise ValueError(
                f"gamma={gamma!r} must lie between 0 and 1; give the discount that the agent "
                "learns with"
            )
        self._scale, self._mode, self._gamma, self._normalise = scale, mode, gamma, normalise
        self.running = RunningScale()
        """What empowerment is divided by with `normalise=True`; keep it with the agent."""

    def _mixed(self, reward: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        if self._normalise:
            if self.update_running_mean:
                self.running.update(after)
            before, after = self.running.apply(before), self.running.apply(after)
        return mix(self._mode, reward, before, after, self._scale, self._gamma)


class EmpowermentReward(_Mixing, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds empowerment to the reward, replaces the reward by it, shapes the reward with it, or
    only tells it.

    `value` is a trained estimator or the directory of its run, which sees the observations of
    `env`, or `emp.Online`, which learns while the agent does; or, for enumerable environments, a
    horizon K, for exact empowerment worked out when a state is first met; or an exact or learned
    landscape, which is looked up by state; this is how exact empowerment with feedback is used.
    `info["empowerment"]` always holds E(s') in nats.

    `scale` is the worth of one nat. `mode` is one of add, replace, shape and info. `gamma` is
    the agent's discount, for shape. `normalise` divides empowerment by its running root mean
    square, which `env.update_running_mean = False` freezes.

    >>> import gymnasium
    >>> lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    >>> env = EmpowermentReward(lake, 1, mode="replace")
    >>> _, info = env.reset(seed=0)
    >>> info["empowerment"]  # ln 3: stay, go right or go down
    1.0986122886681098
    """

    def __init__(
        self,
        env: gymnasium.Env,
        value: Any,
        scale: float = 1.0,
        mode: str = "add",
        gamma: float = 0.99,
        normalise: bool = False,
    ):
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            value=value,
            scale=scale,
            mode=mode,
            gamma=gamma,
            normalise=normalise,
        )
        gymnasium.Wrapper.__init__(self, env)
        self._settle(scale, mode, gamma, normalise)
        self._value, self._name = _value_of(env, value), name_of(env)
        self._before = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._value.begin()
        self._before = self._value.now(observation)
        return observation, {**info, "empowerment": self._before}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        check_rewards(reward, self._name)
        after = 0.0 if terminated else self._value.now(observation)
        mixed = self._mixed(np.array([float(reward)]), np.array([self._before]), np.array([after]))
        self._before = after
        return observation, float(mixed[0]), terminated, truncated, {**info, "empowerment": after}


class EmpowermentVectorReward(_Mixing, VectorWrapper, RecordConstructorArgs):
    """The same for vector environments: all copies' observations go through the estimator together,
    once a step.

    `value` is a trained estimator or the directory of its run. The step in which a vector
    environment resets an ended copy, whatever the action, is no step of the agent, and its reward
    is left alone.
    """

    def __init__(
        self,
        env: VectorEnv,
        value: Any,
        scale: float = 1.0,
        mode: str = "add",
        gamma: float = 0.99,
        normalise: bool = False,
    ):
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            value=value,
            scale=scale,
            mode=mode,
            gamma=gamma,
            normalise=normalise,
        )
        VectorWrapper.__init__(self, env)
        self._settle(scale, mode, gamma, normalise)
        self._autoreset = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        estimator = _estimator(value)
        if estimator is None and (isinstance(value, Landscape) or _is_horizon(value)):
            raise ValueError(
                f"a {type(value).__name__} is looked up by state, which a vector environment does "
                "not show; "
                "wrap each single environment in EmpowermentReward (gymnasium.make_vec(..., "
                "wrappers=[...]))"
            )
        if estimator is None:
            raise ValueError(
                f"value is a {type(value).__name__}; give a trained estimator or the directory of "
                "a run"
            )
        self._name = name_of(env)
        self._nats = _Seen(env.single_observation_space, estimator, self._name)
        self._before = np.zeros(env.num_envs)
        self._asleep = np.zeros(env.num_envs, bool)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observations, info = self.env.reset(seed=seed, options=options)
        self._before = self._nats(observations)
        self._asleep = np.zeros(self.num_envs, bool)
        return observations, self._told(info, self._before)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        observations, reward, terminated, truncated, info = self.env.step(actions)
        check_rewards(reward, self._name)
        cut = (
            np.flatnonzero(truncated & ~terminated)
            if self._autoreset == AutoresetMode.SAME_STEP
            else []
        )
        finals = [final_observations(info, cut, self._name)] if len(cut) else []
        nats = self._nats(np.concatenate([observations, *finals]))
        seen, after = nats[: self.num_envs], nats[: self.num_envs].copy()
        after[cut] = nats[self.num_envs :]
        after[terminated] = 0.0
        awake = ~self._asleep
        mixed = np.array(reward, np.float64)
        mixed[awake] = self._mixed(mixed[awake], self._before[awake], after[awake])
        self._before = seen
        if self._autoreset == AutoresetMode.NEXT_STEP:
            self._asleep = terminated | truncated
        return observations, mixed, terminated, truncated, self._told(info, after)

    def _told(self, info: dict[str, Any], nats: np.ndarray) -> dict[str, Any]:
        """Gymnasium's form: an array, and which of its entries count."""
        return {**info, "empowerment": nats.copy(), "_empowerment": np.ones(self.num_envs, bool)}


@runtime_checkable
class _Present(Protocol):
    """Empowerment of the state that an environment is in."""

    def begin(self) -> None: ...

    def now(self, observation: Any) -> float: ...


class _Seen:
    """Learned empowerment of an environment's observations. A picture that comes again is not
    worked out again, which in grids saves most of the time; it is known by its digest."""

    def __init__(self, space: gymnasium.Space, estimator: Empowerment, name: str):
        self._space, self._estimator, self._name = space, estimator, name
        self._known: dict[bytes, float] = {}

    def __call__(self, observations: Any) -> np.ndarray:
        frames = checked_frames(self._space, np.asarray(observations), self._name, "reset or step")
        if isinstance(self._estimator, Learning):
            self._estimator.learn(len(frames))
            return self._estimator.empowerment(frames)
        if frames.dtype != np.uint8:
            return self._estimator.empowerment(frames)
        names = [sha1(frame.tobytes(), usedforsecurity=False).digest() for frame in frames]
        new = {name: i for i, name in enumerate(names) if name not in self._known}
        if len(self._known) > MOST_PICTURES:
            self._known.clear()
            new = {name: i for i, name in enumerate(names)}
        if new:
            self._known.update(
                zip(
                    new,
                    self._estimator.empowerment(frames[list(new.values())]).tolist(),
                    strict=True,
                )
            )
        return np.array([self._known[name] for name in names])


class _Learned:
    """By what is seen."""

    def __init__(self, env: gymnasium.Env, estimator: Empowerment):
        self._nats = _Seen(env.observation_space, estimator, name_of(env))

    def begin(self) -> None:
        pass

    def now(self, observation: Any) -> float:
        return float(self._nats(np.asarray(observation)[None])[0])


class _Exact:
    """By the state beneath, worked out when it is first met."""

    def __init__(self, env: gymnasium.Env, horizon: int):
        check_horizon(horizon)
        self._beneath, self._horizon = Beneath(env), horizon
        self._known: dict[Any, Value] = {}

    def begin(self) -> None:
        world, name = self._beneath.begin()
        if name not in self._known:
            if len(self._known) == MOST_WORLDS:
                self._known.clear()
            self._known[name] = exact_value(world, self._horizon)
        self._value = self._known[name]

    def now(self, observation: Any) -> float:
        return float(self._value(self._beneath.state())[0])


class _LookUp:
    """By the state beneath, from a landscape."""

    def __init__(self, env: gymnasium.Env, landscape: Landscape):
        self._beneath, self._name, self._landscape = Beneath(env), name_of(env), landscape
        self._nats = dict(
            zip(identify(landscape.states).tolist(), landscape.nats.tolist(), strict=True)
        )
        self._probed: set[Any] = set()

    def begin(self) -> None:
        world, grid = self._beneath.begin()
        if world.name != self._landscape.world:
            raise ValueError(
                f"environment {self._name!r} is world {world.name!r}, and the landscape is of "
                f"{self._landscape.world!r}; compute the landscape of emp.from_gymnasium(env), or "
                "pass a horizon as value"
            )
        if grid not in self._probed:
            self._probed.add(grid)
            self._probe(world)

    def _probe(self, world: World) -> None:
        """Names do not tell worlds apart that are slippery or not: where values are proved, the
        first is worked out. Nor do they tell grids apart that are drawn at a reset."""
        state = self._beneath.state()
        there = np.flatnonzero(identify(self._landscape.states) == identify(state))[:1]
        lower, upper = self._landscape.lower[there], self._landscape.upper[there]
        if not there.size or not np.isfinite(lower).all():
            return
        closed = {"feedback": self._landscape.feedback, "discount": self._landscape.discount}
        truth = exact(world, self._landscape.horizon, state, **closed)
        if (truth.lower > upper + APART).any() or (truth.upper < lower - APART).any():
            raise ValueError(
                f"environment {self._name!r} is worth {truth.nats[0]:.4f} nats where it starts, "
                "and the landscape says "
                f"{self._landscape.nats[there][0]:.4f}; give that of emp.from_gymnasium(env), or "
                "the horizon as value"
            )

    def now(self, observation: Any) -> float:
        state = identify(self._beneath.state()).tolist()[0]
        if state not in self._nats:
            raise ValueError(
                f"environment {self._name!r} is in a state that the landscape does not have; "
                "give the horizon as value instead, and states are worked out as they are met"
            )
        return self._nats[state]


def _estimator(value: Any) -> Any:
    """A trained estimator, from a run directory if need be; None for anything else."""
    if isinstance(value, str | os.PathLike):
        from .variational.training import load

        return load(cast(Any, value))
    return value if isinstance(value, Empowerment) else None


def _is_horizon(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _value_of(env: gymnasium.Env, value: Any) -> _Present:
    estimator = _estimator(value)
    if estimator is not None:
        return _Learned(env, estimator)
    if isinstance(value, Landscape):
        return _LookUp(env, value)
    if _is_horizon(value):
        return _Exact(env, int(value))
    raise ValueError(
        f"value is a {type(value).__name__}; give a trained estimator, the directory of a run, a "
        "landscape, or a "
        "horizon for exact empowerment"
    )
