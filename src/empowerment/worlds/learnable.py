"""Gymnasium environments that can be learned on but not enumerated: live copies on the host,
stepped together."""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from .world import Continuous, World

MOST_ACTIONS = 1024
MOST_STATES = 2**14
"""Discrete observations are shown as one number for each state, one of which is 1."""
LARGEST_SIDE = 96  # pixels; the convolutions are made for small pictures
MOST_CHANNELS = 16

Make = Callable[[], gymnasium.Env]


class StepResult(NamedTuple):
    """What one action did, for each copy."""

    end: np.ndarray
    """What was seen after the action, before any reset."""
    terminated: np.ndarray
    truncated: np.ndarray
    broken: np.ndarray | bool = False
    """Whether a simulation diverged, so that nothing may be learned from the window."""


class HostWorld(World):
    """A world known only by acting in it.

    Its dynamics are not revealed, so `emp.exact` refuses it, and it cannot be put into a state.
    What stands in for a state is what the environment shows: `observe` turns that into what the
    learner sees, and `est.landscape(states=...)` takes a batch of the environment's own
    observations.
    """

    outcomes = None  # not known
    on_host = True
    settable = False

    def __init__(self, env: VectorEnv, name: str):
        self.name, self.env, self.copies = name, env, env.num_envs
        self._mode = env.metadata.get("autoreset_mode")
        if not isinstance(self._mode, AutoresetMode):
            raise ValueError(
                f"vector environment {name!r} does not say when it resets copies that have ended; "
                "set env.metadata['autoreset_mode'] to one of gymnasium.vector.AutoresetMode"
            )
        self._space, self._action_space = env.single_observation_space, env.single_action_space
        self.shape = check_observations(self._space, name)
        self.actions = action_names(self._action_space, name)
        self.continuous = (
            Continuous(len(self.actions)) if isinstance(self._action_space, spaces.Box) else None
        )
        self.seen = np.zeros((self.copies, *self.shape), np.float32)
        """What each copy shows now, as the learner sees it."""
        self.needs_reset = np.ones(self.copies, bool)
        """Copies whose episode is over and whose next step is a reset, whatever the action."""

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return self.shape

    def terminal(self, state: Any) -> np.ndarray:
        """An observation does not tell."""
        return np.zeros(np.shape(state)[:1], bool)

    def begin(self, seed: int) -> None:
        """Reset every copy."""
        observations, _ = self._call("reset", 2, seed=seed)
        self.seen = self._see(observations, "reset")
        self.needs_reset = np.zeros(self.copies, bool)

    def restart_some(self) -> None:
        """Between windows nothing is done: environments are reset only where they end."""

    def move(self, actions: np.ndarray) -> StepResult:
        """One action in each copy; copies that end are reset now or, those asleep, at their next
        step."""
        observations, rewards, *ends, info = self._call("step", 5, self._to_environment(actions))
        check_rewards(rewards, self.name)
        terminated, truncated = (self._flags(flags) for flags in ends)
        self.seen = self._see(observations, "step")
        end, over = self.seen, terminated | truncated
        if self._mode == AutoresetMode.NEXT_STEP:
            self.needs_reset = over
        elif over.any() and self._mode == AutoresetMode.SAME_STEP:
            end = end.copy()
            end[over] = self._see(
                final_observations(info, np.flatnonzero(over), self.name), "step", int(over.sum())
            )
        elif over.any():
            observations, _ = self._call("reset", 2, options={"reset_mask": over.copy()})
            self.seen = np.where(
                over.reshape(-1, *(1 for _ in self.shape)), self._see(observations, "reset"), end
            )
        return StepResult(end, terminated, truncated)

    def observe(self, state: Any) -> np.ndarray:
        """What the learner sees of a batch of the environment's observations."""
        return to_frames(self._space, np.asarray(state))

    def close(self) -> None:
        """Close every copy, and end the processes that they run in."""
        self.env.close()

    @property
    def start(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._refuse()

    def states(self) -> NoReturn:
        self._refuse()

    def step(self, state: Any, action: Any, outcome: Any) -> NoReturn:
        self._refuse()

    def probabilities(self, state: Any, action: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"environment {self.name!r} can be learned on but not enumerated: it has neither a "
            "table of transitions "
            "(env.unwrapped.P) nor a MiniGrid grid; use emp.train on it, and give observations as "
            "states="
        )

    def _call(self, method: str, parts: int, *args: Any, **options: Any) -> Any:
        """A call of the environment, which returns this many parts; what goes wrong is said in one
        sentence."""
        try:
            returned = getattr(self.env, method)(*args, **options)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ValueError(
                f"environment {self.name!r} failed in {method}: {type(error).__name__}: {reason}; "
                "mend the environment"
            ) from error
        if not isinstance(returned, tuple) or len(returned) != parts:
            raise ValueError(
                f"environment {self.name!r} returned no {parts} parts from {method}; mend the "
                "environment"
            )
        return returned

    def _flags(self, flags: Any) -> np.ndarray:
        array = np.array(flags)
        if array.shape != (self.copies,) or array.dtype.kind not in "biu":
            raise ValueError(
                f"environment {self.name!r} returned terminated or truncated as "
                f"{array.dtype}{array.shape} from step; "
                f"give one boolean for each of its {self.copies} copies"
            )
        return array.astype(bool)

    def _see(self, observations: Any, method: str, count: int | None = None) -> np.ndarray:
        # A copy: environments may write into the same array again.
        frames = checked_frames(self._space, np.array(observations), self.name, method)
        if len(frames) != (self.copies if count is None else count):
            raise ValueError(
                f"environment {self.name!r} returned {len(frames)} observations for {self.copies} "
                "copies from "
                f"{method}; mend the environment"
            )
        return frames

    def _to_environment(self, actions: np.ndarray) -> np.ndarray:
        space = self._action_space
        if isinstance(space, spaces.Box):
            return (space.low + (actions + 1) / 2 * (space.high - space.low)).astype(space.dtype)
        if isinstance(space, spaces.MultiDiscrete):
            return (np.stack(np.unravel_index(actions, space.nvec), axis=-1) + space.start).astype(
                space.dtype
            )
        if isinstance(space, spaces.MultiBinary):
            bits = np.unravel_index(actions, (2,) * space.shape[0])
            return np.stack(bits, axis=-1).astype(space.dtype)
        return (actions + space.start).astype(space.dtype)  # pyright: ignore[reportAttributeAccessIssue] - Discrete


def live(
    env: gymnasium.Env | VectorEnv | Make, copies: int, processes: bool, name: str
) -> HostWorld:
    """An environment to act in: a vector environment as it is, else `copies` of a single one."""
    if isinstance(copies, bool) or not isinstance(copies, int) or copies < 1:
        raise ValueError(f"copies={copies!r} must be a whole number of 1 or more")
    if isinstance(env, VectorEnv):
        if copies > 1 or processes:
            raise ValueError(
                f"copies={copies} and processes={processes} are for single environments; "
                f"environment {name!r} is a "
                "vector environment already"
            )
        return HostWorld(env, name)
    if isinstance(env, gymnasium.Env):
        check_observations(env.observation_space, name)
        action_names(env.action_space, name)
        makers = [lambda: env] if copies == 1 and not processes else [_maker(env, name)] * copies
    else:
        makers = [env] * copies
    try:
        vector = (
            _parallel(makers)
            if processes
            else SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        )
    except Exception as error:
        raise ValueError(
            f"environment {name!r} could not be made: {type(error).__name__}: {error}; mend the "
            "function that makes it"
        ) from error
    try:
        spec = vector.get_attr("spec")[0]
        return HostWorld(vector, name if spec is None else spec.id)
    except BaseException:
        if processes:  # a single environment is the caller's own
            vector.close()
        raise


def _parallel(makers: list[Make]) -> AsyncVectorEnv:
    # A forked process would inherit the threads of the learner in an unusable state.
    return AsyncVectorEnv(makers, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP)


def _maker(env: gymnasium.Env, name: str) -> Make:
    """A function that makes an environment like this one, its wrappers included."""
    spec = env.spec
    if spec is None or any(wrapper.kwargs is None for wrapper in spec.additional_wrappers):
        raise ValueError(
            f"environment {name!r} cannot be made again from its spec, which copies need; "
            "give a function that makes it: from_gymnasium(lambda: ..., copies=...)"
        )
    return lambda: gymnasium.make(spec)


def action_names(space: gymnasium.Space, name: str) -> tuple[str, ...]:
    """Names of the primitive actions, combinations of choices included; or of the numbers in a
    vector."""
    if isinstance(space, spaces.Discrete):
        if space.n > MOST_ACTIONS:
            raise _too_many(space, name)
        names = [f"action {i}" for i in range(int(space.start), int(space.start + space.n))]
    elif isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        if np.prod(space.nvec.astype(float)) > MOST_ACTIONS:
            raise _too_many(space, name)
        names = [
            f"action {tuple(map(int, index + space.start))}" for index in np.ndindex(*space.nvec)
        ]
    elif isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        choices = 2 ** min(space.shape[0], 63)
        if choices > MOST_ACTIONS:
            raise _too_many(space, name)
        names = [f"action {i:0{space.shape[0]}b}" for i in range(choices)]
    elif (
        isinstance(space, spaces.Box)
        and len(space.shape) == 1
        and np.issubdtype(space.dtype, np.floating)
    ):
        if not space.is_bounded():
            raise ValueError(
                f"environment {name!r} has actions without bounds, {space}; wrap it so that they "
                "have some "
                "(gymnasium.wrappers.TransformAction)"
            )
        names = [f"number {i}" for i in range(space.shape[0])]
    else:
        raise ValueError(
            f"environment {name!r} has actions {space}; wrap it so that they are Discrete, "
            "MultiDiscrete, MultiBinary or a vector "
            "(gymnasium.wrappers.TransformAction)"
        )
    return tuple(names)


def _too_many(space: gymnasium.Space, name: str) -> ValueError:
    return ValueError(
        f"environment {name!r} has more than {MOST_ACTIONS} actions, {space}; wrap it so that it "
        "has fewer "
        "(gymnasium.wrappers.TransformAction)"
    )


def check_observations(space: gymnasium.Space, name: str) -> tuple[int, ...]:
    """The shape of what the learner sees; a ValueError says what to wrap the environment in."""
    if isinstance(space, spaces.Discrete) and space.n <= MOST_STATES:
        return (int(space.n),)
    remedy = _remedy(space)
    if remedy is not None:
        raise ValueError(f"environment {name!r} has observations {_brief(space)}; {remedy}")
    return space.shape or ()


def _remedy(space: gymnasium.Space) -> str | None:
    """What to wrap an environment of these observations in, or None where nothing is needed."""
    if isinstance(space, spaces.Dict):
        return (
            "wrap it in gymnasium.wrappers.FlattenObservation or, for MiniGrid, in "
            "minigrid.wrappers.FullyObsWrapper "
            "and then ImgObsWrapper"
        )
    if (
        not isinstance(space, spaces.Box)
        or space.dtype is None
        or len(space.shape) in (0, 2)
        or len(space.shape) > 3
    ):
        pixels = isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 2
        if pixels:
            return "wrap it in gymnasium.wrappers.ReshapeObservation to rows, columns and 1 channel"
        return "wrap it in gymnasium.wrappers.FlattenObservation"
    if len(space.shape) == 3 and space.shape[2] > MOST_CHANNELS:
        return "wrap it in gymnasium.wrappers.TransformObservation that moves the channels last"
    if len(space.shape) == 3 and max(space.shape[:2]) > LARGEST_SIDE:
        grey = "GrayscaleObservation(keep_dim=True) and " if space.shape[2] == 3 else ""
        return (
            f"wrap it in gymnasium.wrappers.{grey}ResizeObservation to at most {LARGEST_SIDE} rows "
            "and columns "
            "(for Atari 42 are enough)"
        )
    return None


def _brief(space: gymnasium.Space) -> str:
    return f"{type(space).__name__}{f' of shape {space.shape}' if space.shape else ''}"


def checked_frames(space: gymnasium.Space, array: np.ndarray, name: str, method: str) -> np.ndarray:
    """`to_frames` of what is as its space says; for the rest a ValueError names the environment and
    the call."""
    origin, remedy = f"environment {name!r} returned", f"from {method}; mend the environment"
    if array.shape[1:] != space.shape or array.ndim == 0:
        raise ValueError(
            f"{origin} observations of shape {array.shape[1:]} {remedy}, whose observation space "
            f"says {space.shape}"
        )
    whole = isinstance(space, spaces.Discrete)
    if (
        array.dtype.kind not in "iu"
        if whole
        else not np.can_cast(array.dtype, space.dtype or float, "same_kind")
    ):
        raise ValueError(
            f"{origin} observations of type {array.dtype} {remedy}, whose space says {space.dtype}"
        )
    if (
        isinstance(space, spaces.Discrete)
        and ((array < space.start) | (array >= space.start + space.n)).any()
    ):
        raise ValueError(f"{origin} an observation outside of {space} {remedy}")
    frames = to_frames(space, array)
    if not np.isfinite(frames).all():
        raise ValueError(
            f"{origin} NaN or infinity {remedy}, or wrap it in "
            "gymnasium.wrappers.TransformObservation"
        )
    return frames


def final_observations(info: dict[str, Any], copies: Any, name: str) -> np.ndarray:
    """What these copies of a vector environment that resets in the same step showed last, before
    they were reset."""
    if "final_obs" not in info:
        raise ValueError(
            f"vector environment {name!r} resets in the same step and gives no info['final_obs'] "
            "in step; "
            "add it, or use another autoreset mode"
        )
    return np.stack([np.asarray(info["final_obs"][i]) for i in copies])


def check_rewards(rewards: Any, name: str) -> None:
    """Refuse rewards that are no numbers, for whoever learns from them."""
    array = np.asarray(rewards)
    if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
        shown = " ".join(str(rewards).split())[:60]
        raise ValueError(
            f"environment {name!r} returned reward {shown} from step; mend the environment"
        )


def to_frames(space: gymnasium.Space, observations: np.ndarray) -> np.ndarray:
    """A batch of an environment's observations as the learner sees them: pixels, or `float32`
    vectors."""
    if isinstance(space, spaces.Discrete):
        numbers = np.arange(space.start, space.start + space.n)
        return (observations[..., None] == numbers).astype(np.float32)
    return observations if observations.dtype == np.uint8 else observations.astype(np.float32)
