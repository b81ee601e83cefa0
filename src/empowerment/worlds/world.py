"""What every world is: pure dynamics with explicit chance, on NumPy and JAX arrays alike."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

State = Any
"""A world's full state: an array or a named tuple of arrays, with any leading batch dimensions."""


def namespace(*arrays: Any) -> Any:
    """The array module (`numpy` or `jax.numpy`) that these arrays belong to.

    One dynamics function then serves exact enumeration, which runs it in NumPy without compiling
    anything, and learning, which compiles it with JAX.
    """
    for array in arrays:
        if not isinstance(array, np.ndarray | np.generic | int | float):
            return array.__array_namespace__()
    return np


def leaves(state: State) -> tuple[Any, ...]:
    """The arrays of a state, in order."""
    return state if isinstance(state, tuple) else (state,)


def take(state: State, index: Any) -> State:
    """Index every array of a batch of states."""
    return type(state)(*(x[index] for x in state)) if isinstance(state, tuple) else state[index]


def concatenate(states: list[State]) -> State:
    """One batch of states from several batches."""
    if isinstance(states[0], tuple):
        return type(states[0])(*(np.concatenate(parts) for parts in zip(*states, strict=True)))
    return np.concatenate(states)


def blocks(states: State, size: int) -> Iterator[State]:
    """A batch of states in batches of at most so many."""
    for i in range(0, len(leaves(states)[0]), size):
        yield take(states, slice(i, i + size))


def identify(states: State) -> np.ndarray:
    """Whole states as sortable keys, one for each: equal keys if and only if equal states.

    Booleans are packed to bits. Keys are `uint64` where everything fits into eight bytes, else raw
    bytes.
    """
    parts = [np.asarray(x) for x in leaves(states)]
    parts = [x + 0.0 if x.dtype.kind == "f" else x for x in parts]  # minus zero is zero
    n = len(parts[0])
    bits = [x.reshape(n, -1) for x in parts if x.dtype == bool and x.size]
    if sum(x.shape[1] for x in bits) > 8:  # few are quicker one by one
        bits = [np.packbits(np.concatenate(bits, axis=1), axis=1)]
    columns = bits + [np.ascontiguousarray(x).reshape(n, -1) for x in parts if x.dtype != bool]
    if sum(x.shape[1] * _width(x) for x in columns) <= 64:
        return _packed(n, columns)
    keys = np.concatenate([x.view(np.uint8) for x in columns], axis=1)
    return keys.view(f"V{keys.shape[1]}")[:, 0]


def _packed(n: int, parts: list[np.ndarray]) -> np.ndarray:
    """`uint64[n]`: all columns of all parts side by side in one number, the first one in the lowest
    bits."""
    keys, low = np.zeros(n, np.uint64), 0
    for part in parts:
        for column in part.view(f"u{part.itemsize}").T:
            keys |= column.astype(np.uint64) << np.uint64(low)
            low += _width(part)
    return keys


def _width(part: np.ndarray) -> int:
    """Bits of an entry."""
    return 1 if part.dtype == bool else 8 * part.itemsize


@dataclass(frozen=True)
class Layout:
    """Where states lie on a plane, for pictures: grid worlds have one, and so may tables."""

    shape: tuple[int, int]
    walls: np.ndarray
    """`bool[rows, columns]`, drawn as walls."""
    marks: tuple[tuple[str, int, int], ...] = ()
    """Things worth drawing on a landscape: (kind, row, column), such as ("key", 2, 2)."""


def pick_outcome(probabilities: Any, uniform: Any) -> Any:
    """Which outcome a number between 0 and 1 draws from each row of probabilities, in NumPy or JAX.

    Divided by their sum, the levels end in 1, so that an outcome of probability zero is not drawn;
    the last one is left out, since rounding must not lead beyond it.
    """
    levels = namespace(probabilities).cumsum(probabilities, axis=-1)
    return (uniform[..., None] >= (levels / levels[..., -1:])[..., :-1]).sum(axis=-1)


@dataclass(frozen=True)
class Continuous:
    """Actions that are vectors: each number lies between -1 and 1 or, with `power`, anywhere, with
    E|a|² <= power."""

    size: int
    """Numbers in one action."""
    power: float | None = None
    """Largest mean of |a|² over the steps of a sequence; None where each number is bounded."""


class World(ABC):
    """An environment with pure dynamics: `reset`, `step`, `observe`.

    `step(state, action, outcome)` is deterministic. `outcome` is an index into
    `probabilities(state, action)`, which has length one where nothing is random: sampling draws the
    index, exact enumeration visits them all. Where outcomes cannot be listed, `outcome` is a vector
    of `noise` standard normal numbers. Every method takes leading batch dimensions and works on
    NumPy and JAX arrays.
    """

    name: str
    actions: tuple[str, ...]
    """Names of the primitive actions; of the numbers in an action where they are continuous."""
    continuous: Continuous | None = None
    """What actions are where they are vectors; None where they are numbers 0, 1, ..."""
    outcomes: int | None
    """How many outcomes one action can have at most; 1 in a deterministic world, None where they
    cannot be listed."""
    noise: int = 0
    """How many standard normal numbers one step takes, where outcomes cannot be listed."""
    start: State
    """The state the world starts in, without batch dimensions."""
    layout: Layout | None = None
    settable: bool = True
    """Whether `step` can be called on any state; otherwise the world can only be acted in."""
    on_host: bool = False
    """Whether `step` and `observe` run in NumPy only and cannot be compiled."""
    terminal_is_failure: bool = False
    """Whether an episode that ends is a simulation that failed, and what led there is to be
    forgotten."""

    @property
    def deterministic(self) -> bool:
        return self.outcomes == 1

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of what the agent sees."""
        return np.shape(self.observe(self.start))

    def table(self) -> dict[str, np.ndarray]:
        """What tells the world from others of its name, where it is a table."""
        return {}

    @property
    def branches(self) -> int:
        """How many outcomes one action can have at most, where they can be listed."""
        if self.outcomes is None:
            raise ValueError(
                f"world {self.name!r} has outcomes that cannot be listed or enumerated; learn on "
                "it with emp.train"
            )
        return self.outcomes

    @property
    def enumerable(self) -> bool:
        """Whether actions and their outcomes can be listed."""
        return self.continuous is None and self.outcomes is not None

    @abstractmethod
    def step(self, state: State, action: Any, outcome: Any) -> State:
        """The next state."""

    def probabilities(self, state: State, action: Any) -> Any:
        """Probabilities of the outcomes of an action, `float[..., outcomes]`."""
        raise ValueError(
            f"the outcomes of actions in world {self.name!r} cannot be listed; draw them instead"
        )

    @abstractmethod
    def observe(self, state: State) -> Any:
        """What the agent sees: pixels `uint8[..., H, W, 3]` or a vector `float32[..., n]`."""

    @abstractmethod
    def states(self) -> State:
        """A batch of states worth a landscape: every place of the agent, the rest as at the
        start."""

    def locate(self, states: State) -> np.ndarray:
        """Row and column of each state on the layout, `int[n, 2]`."""
        raise ValueError(f"world {self.name!r} has no layout; use .nats instead of .grid()")

    def terminal(self, state: State) -> Any:
        """Whether an episode ends here."""
        first = leaves(state)[0]
        return namespace(first).zeros(first.shape, bool)

    def draw_outcome(self, state: State, action: Any, rng: np.random.Generator) -> np.ndarray:
        """Chance for one step from each state, in NumPy."""
        shape = np.shape(self.terminal(state))
        if self.noise:
            return rng.standard_normal((*shape, self.noise), np.float32)
        if self.deterministic:
            return np.zeros(shape, np.int64)
        return np.asarray(pick_outcome(self.probabilities(state, action), rng.random(shape)))

    def draw_actions(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Actions drawn evenly, in NumPy; normally with the allowed power where only that is
        bounded."""
        if self.continuous is None:
            return rng.integers(len(self.actions), size=shape)
        shape, power = (*shape, self.continuous.size), self.continuous.power
        if power is None:
            return rng.uniform(-1, 1, shape).astype(np.float32)
        return rng.normal(0, np.sqrt(power / self.continuous.size), shape).astype(np.float32)

    def scatter(self, count: int, rng: np.random.Generator) -> State:
        """States to begin in, drawn at random."""
        starts = self.states()
        return take(starts, rng.integers(len(leaves(starts)[0]), size=count))

    def resampled(self, count: int) -> "tuple[World, Iterator[World]] | None":
        """Where this world was counted from data: its table as a plain world, and so many tables
        that as many data drawn from it would give. None where the dynamics are known."""
        return None

    def picture(self, state: State) -> np.ndarray | None:
        """One state drawn, `uint8[rows, columns, 3]`, where its observation is no picture; None
        where nothing is."""
        return None

    def spec(self) -> dict[str, Any] | None:
        """What `rebuild` needs to make this world again, as JSON; None where only its program
        can."""
        return None

    def reset(self, key: Any) -> State:
        """A start drawn at random from `states()` with a JAX key."""
        import jax
        import jax.numpy as jnp

        starts = self.states()
        pick = jax.random.randint(key, (), 0, len(leaves(starts)[0]))
        return take(jax.tree.map(jnp.asarray, starts), pick)

    def __repr__(self) -> str:
        return f"<world {self.name!r}: {len(self.actions)} actions>"


def check_world(world: Any) -> None:
    """A ValueError says what to give in place of a name, an environment or anything else that is no
    world."""
    if not isinstance(world, World):
        made = (
            f"emp.make({world!r})"
            if isinstance(world, str)
            else "emp.make('two-rooms') or emp.from_gymnasium(env)"
        )
        raise ValueError(f"world is a {type(world).__name__}; give a world, such as {made}")
