"""Environments written in JAX as worlds: stepped and learned on the device, enumerated where they
are proved deterministic."""

import re
from collections import namedtuple
from collections.abc import Callable
from functools import cached_property
from numbers import Integral
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from .dependence import traced_twice, used_inputs
from .jax_adapters import Dynamics, adapted
from .world import State, World, leaves, take

BATCHES = 16, 256, 4096
"""States that are stepped together in one compiled call: few sizes, so that few are compiled."""
MOST_LISTED, SAMPLED, SAMPLE_STEPS = 2**17, 1024, 40
"""States that are listed at most; where there are more, or randomness, agents of random play and
steps that states are taken from."""
KEYS = "key", "rng"
"""What names of fields contain that hold random keys as plain arrays of integers."""
NOISE = 2
"""Normal numbers whose bits are the random key of a step."""


def from_jax(
    step: Any,
    start: Any = None,
    actions: int | np.integer | None = None,
    observe: Callable[[Any], Any] | None = None,
    terminal: Callable[[Any], Any] | None = None,
    probabilities: Callable[[Any, Any], Any] | None = None,
    *,
    name: str | None = None,
    seed: int = 0,
) -> "JaxWorld":
    """A world from a pure function `step(key, state, action) -> state` on any pytree.

    `start` is the state it starts in and `actions` how many actions there are. `observe(state)` is
    what the agent sees (by default all numbers of the state), `terminal(state)` whether an episode
    ends, after which nothing changes any more. With `probabilities(state, action)` of the
    outcomes of an action, `step` is given the number of an outcome in place of a key: then a random
    world can be enumerated, too. In place of `step`, an environment of gymnax,
    XLand-MiniGrid, NAVIX or Jumanji, or a pair of it and its parameters; it starts in what its
    reset gives for `seed`. Time limits are left out.

    What is seen is traced: if it does not depend on the key, the world is deterministic, which is
    then proved, and `emp.exact` enumerates it. Parts of the state that nothing depends on, such as
    clocks, are left out of it, and so are random keys that it carries: they are drawn again at each
    step.

    >>> ring = from_jax(lambda key, state, action: (state + 2 * action - 1) % 7, start=0, actions=2)
    >>> ring.deterministic
    True
    """
    dynamics = adapted(step, seed)
    given = {"start": start, "actions": actions, "observe": observe}
    given |= {"terminal": terminal, "probabilities": probabilities}
    ignored = [f"{argument}=" for argument, value in given.items() if value is not None]
    if dynamics is not None and ignored:
        raise ValueError(
            f"{' and '.join(ignored)} would be ignored, since environment {dynamics.name!r} says "
            "it itself; leave it out, or give a step function"
        )
    if dynamics is None:
        if not callable(step) or start is None or actions is None:
            raise ValueError(
                f"step is a {type(step).__name__}; give a function step(key, state, action) with "
                "start= and actions=, or an environment of gymnax, XLand-MiniGrid, NAVIX or Jumanji"
            )
        if isinstance(actions, bool) or not isinstance(actions, Integral) or actions < 1:
            raise ValueError(f"actions={actions!r} must be a whole number of 1 or more")
        own = name or getattr(step, "__name__", "jax")
        parts = int(actions), observe, terminal, own.strip("<>"), probabilities
        dynamics = Dynamics(step, start, *parts)
    return JaxWorld(dynamics, name)


class JaxWorld(World):
    """A pure JAX function as a world."""

    def __init__(self, dynamics: Dynamics, name: str | None = None):
        self.name = name or dynamics.name
        self.actions = tuple(f"action {i}" for i in range(dynamics.actions))
        self._dynamics = dynamics
        paths, self._structure = jax.tree_util.tree_flatten_with_path(dynamics.start)
        self._first = [_array(leaf) for _, leaf in paths]
        names = [jax.tree_util.keystr(path) for path, _ in paths]
        self._keys = [i for i, x in enumerate(self._first) if _is_key(names[i], x)]
        self._kept, self.random_parts = self._analysed(names)
        fields = [f"state{re.sub(r'[^a-zA-Z0-9]+', '_', names[i])}" for i in self._kept]
        fields = [f"{field.rstrip('_')}_{i}" for i, field in enumerate(fields)]
        self._state: Any = namedtuple("JaxState", fields)
        self.start = self._state(*(np.asarray(self._first[i]) for i in self._kept))
        self.outcomes = None if self.random_parts else 1
        if dynamics.probabilities is not None:
            self.random_parts, self.outcomes = [], self._listed()
        self.noise = NOISE if self.outcomes is None else 0
        whole = self._step_one, self._observe_one, self._over, self._odds
        self._compiled = {one: jax.jit(jax.vmap(one)) for one in whole}

    @property
    def branches(self) -> int:
        if self.outcomes is None:
            parts = ", ".join(self.random_parts)
            raise ValueError(
                f"world {self.name!r} depends on the random key ({parts}), so its outcomes cannot "
                "be listed; learn on it with emp.train, or give their probabilities="
            )
        return self.outcomes

    def step(self, state: State, action: Any, outcome: Any) -> State:
        random = [] if self.deterministic else [(outcome, 1 if self.noise else 0)]
        return self._batched(self._step_one, state, (action, 0), *random)

    def observe(self, state: State) -> Any:
        return self._batched(self._observe_one, state)

    def terminal(self, state: State) -> Any:
        return self._batched(self._over, state)

    def probabilities(self, state: State, action: Any) -> Any:
        if self.branches == 1:
            return np.ones((*np.shape(action), 1))
        odds = self._batched(self._odds, state, (action, 0))
        if isinstance(odds, jax.Array):
            return odds
        odds = odds.astype(np.float64)
        total = odds.sum(-1, keepdims=True)
        if not (odds >= 0).all() or not np.allclose(total, 1, atol=1e-4):
            raise ValueError(
                f"world {self.name!r} has probabilities that are negative, or do not add up to 1"
            )
        return odds / total

    def states(self) -> State:
        return self._shown

    @cached_property
    def _shown(self) -> State:
        """All states within reach of the start, if it is known which these are; else states of
        random play."""
        from ..reach import closure

        start = take(self.start, None)
        if self.outcomes is not None:
            with tqdm(unit="state", desc=self.name, delay=2.0, leave=False) as bar:
                found = closure(self, start, MOST_LISTED, bar.update)
            if found.closed and found.states is not None:
                return found.states
        rng, path = np.random.default_rng(0), []
        states = take(start, np.zeros(SAMPLED, np.int64))
        for _ in range(SAMPLE_STEPS):
            action = self.draw_actions((SAMPLED,), rng)
            path.append(states)
            states = self.step(states, action, self.draw_outcome(states, action, rng))
        picked = rng.integers(SAMPLE_STEPS, size=SAMPLED)
        return self._state(
            *(np.stack(parts)[picked, np.arange(SAMPLED)] for parts in zip(*path, strict=True))
        )

    def _listed(self) -> int:
        """How many outcomes an action has."""
        shape = jax.eval_shape(self._odds, self.start, jnp.int32(0)).shape
        if len(shape) != 1 or not shape[0]:
            raise ValueError(
                f"world {self.name!r} has probabilities of shape {shape}; give one for each outcome"
            )
        return shape[0]

    def _analysed(self, names: list[str]) -> tuple[list[int], list[str]]:
        """Which leaves of the state matter, and which of them depend on the key; a ValueError says
        what is wrong with the function."""
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self._first]
        key = jax.eval_shape(lambda: self._chance(None))
        action = jax.ShapeDtypeStruct((), jnp.int32)
        self._refuse_impure(names)
        traced = jax.make_jaxpr(self._whole)(key, shapes, action)
        count = len(shapes)
        # Outputs: the leaves of the next state, what is seen there, and whether it has ended.
        wanted = [False] * count + [True] * (len(traced.jaxpr.outvars) - count)
        seen_now = jax.make_jaxpr(lambda x: (self._observed(x), self._ended(x)))(shapes)
        matters = used_inputs(seen_now, [True] * len(seen_now.jaxpr.outvars))
        while True:
            used = used_inputs(traced, [*matters, *wanted[count:]])
            wider = [a or b for a, b in zip(matters, used[1 : 1 + count], strict=True)]
            if wider == matters:
                break
            matters = wider
        plain = [i for i in range(count) if i not in self._keys]
        kept = [i for i in plain if matters[i]] or plain[:1]
        if not kept:
            raise ValueError(f"world {self.name!r} has a state without any number; give it one")

        def drawn(of: Callable[[int], bool]) -> bool:
            return used_inputs(traced, [of(i) for i in range(len(wanted))])[0]

        parts = [f"state{names[i]}" for i in kept if drawn(lambda j, i=i: i == j)]
        return kept, parts + ["what is seen"] * drawn(lambda j: j >= count)

    def _refuse_impure(self, names: list[str]) -> None:
        """The step must give the same program twice, and states of the same shape. Where it gives
        numbers of a wider type than the start's, the start gets this type."""
        key, action = self._chance(None), jnp.int32(0)
        after = traced_twice(self.name, self._dynamics.step, key, self._tree(self._first), action)
        if jax.tree.structure(after) != self._structure:
            raise ValueError(
                f"world {self.name!r} has a step that gives a state of another structure than "
                f"start ({jax.tree.structure(after)}); give the same"
            )
        for where, now, then in zip(names, self._first, jax.tree.leaves(after), strict=True):
            if now.shape != then.shape:
                raise ValueError(
                    f"world {self.name!r} has a step that changes the shape of state{where} from "
                    f"{now.shape} to {then.shape}; keep shapes as they are"
                )
        wider = [
            now if i in self._keys else now.astype(jnp.promote_types(now.dtype, then.dtype))
            for i, (now, then) in enumerate(zip(self._first, jax.tree.leaves(after), strict=True))
        ]
        if any(new.dtype != old.dtype for new, old in zip(wider, self._first, strict=True)):
            self._first = wider
            self._refuse_impure(names)

    def _tree(self, parts: Any) -> Any:
        return jax.tree_util.tree_unflatten(self._structure, list(parts))

    def _full(self, state: Any) -> list[Any]:
        """All leaves of the user's state; those that do not matter are as at the start."""
        parts = list(self._first)
        for i, x in zip(self._kept, leaves(state), strict=True):
            parts[i] = x
        return parts

    def _next(self, key: Any, parts: list[Any], action: Any) -> list[Any]:
        """All leaves of the next state; where an episode is over, nothing changes. Random keys
        that a state carries are drawn again: an agent does not know what chance will bring."""
        over = self._ended(parts)
        drawn = list(parts)
        if self._dynamics.probabilities is None:
            for i in self._keys:
                drawn[i] = _like(parts[i], jax.random.fold_in(key, i))
        after = jax.tree.leaves(self._dynamics.step(key, self._tree(drawn), action))
        return [
            old if i in self._keys else jnp.where(over, old, jnp.asarray(new).astype(old.dtype))
            for i, (old, new) in enumerate(zip(parts, after, strict=True))
        ]

    def _whole(self, key: Any, parts: list[Any], action: Any) -> Any:
        after = self._next(key, parts, action)
        return after, self._observed(after), self._ended(after)

    def _observed(self, parts: list[Any]) -> Any:
        """What is seen, as pixels (`uint8`) or `float32` numbers."""
        if self._dynamics.observe is None:
            seen = [x for i, x in enumerate(parts) if i not in self._keys]
            numbers = [jnp.ravel(x).astype(jnp.float32) for x in seen]
            return jnp.concatenate(numbers)
        seen = jnp.asarray(self._dynamics.observe(self._tree(parts)))
        seen = seen if seen.dtype == jnp.uint8 else seen.astype(jnp.float32)
        return seen if seen.ndim in (1, 3) else jnp.ravel(seen)

    def _ended(self, parts: list[Any]) -> Any:
        if self._dynamics.terminal is None:
            return jnp.zeros((), bool)
        return jnp.asarray(self._dynamics.terminal(self._tree(parts))).astype(bool).reshape(())

    def _chance(self, outcome: Any) -> Any:
        """What a step is given first: the number of an outcome where they are listed, else a
        key."""
        if self._dynamics.probabilities is not None:
            return jnp.int32(0) if outcome is None else outcome.astype(jnp.int32)
        if outcome is None:
            return jax.random.key(0)
        bits = jax.lax.bitcast_convert_type(outcome.astype(jnp.float32), jnp.uint32)
        return jax.random.wrap_key_data(bits)

    def _step_one(self, state: Any, action: Any, outcome: Any = None) -> Any:
        after = self._next(self._chance(outcome), self._full(state), action)
        return self._state(*(after[i] for i in self._kept))

    def _odds(self, state: Any, action: Any) -> Any:
        given = cast(Any, self._dynamics.probabilities)
        return jnp.asarray(given(self._tree(self._full(state)), action))

    def _observe_one(self, state: Any) -> Any:
        return self._observed(self._full(state))

    def _over(self, state: Any) -> Any:
        return self._ended(self._full(state))

    def _batched(self, one: Callable[..., Any], state: State, *others: tuple[Any, int]) -> Any:
        """`one` of every state of a batch; others are arrays with so many dimensions of their
        own. NumPy in, NumPy out, in compiled blocks."""
        first, like = leaves(state)[0], leaves(self.start)[0]
        shapes = [np.shape(first)[: np.ndim(first) - np.ndim(like)]]
        shapes += [np.shape(x)[: np.ndim(x) - own] for x, own in others]
        shape = np.broadcast_shapes(*shapes)
        given = [*leaves(state), *(x for x, _ in others)]
        on_host = all(isinstance(x, np.ndarray | np.generic | int) for x in given)
        xp: Any = np if on_host else jnp

        def flat(x: Any, own: int) -> Any:
            x = xp.asarray(x)
            tail = x.shape[x.ndim - own :] if own else ()
            return xp.broadcast_to(x, (*shape, *tail)).reshape(-1, *tail)

        rows = [
            self._state(
                *(
                    flat(x, np.ndim(y))
                    for x, y in zip(leaves(state), leaves(self.start), strict=True)
                )
            ),
            *(flat(x, own) for x, own in others),
        ]
        found = self._in_blocks(one, rows) if on_host else jax.vmap(one)(*rows)
        return jax.tree.map(lambda x: x.reshape((*shape, *x.shape[1:])), found)

    def _in_blocks(self, one: Callable[..., Any], rows: list[Any]) -> Any:
        """Padded to one of few sizes."""
        count = len(leaves(rows[0])[0])
        size = next((size for size in BATCHES if size >= count), BATCHES[-1])
        found = []
        for i in range(0, max(count, 1), size):
            part = jax.tree.map(lambda x, i=i: _padded(x[i : i + size], size), rows)
            with jax.ensure_compile_time_eval():  # constants inside a program that is traced
                done = self._compiled[one](*part)
            found.append(jax.tree.map(lambda x, i=i: np.asarray(x)[: count - i], done))
        return jax.tree.map(lambda *x: np.concatenate(x), *found)


def _padded(x: np.ndarray, size: int) -> np.ndarray:
    more = [(0, size - len(x)), *((0, 0) for _ in x.shape[1:])]
    return np.pad(x, more, mode="edge" if len(x) else "constant")


def _is_key(name: str, leaf: Any) -> bool:
    """Whether a leaf of the state is a random key, of the new kind or, by its name, of the old."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return True
    if leaf.dtype != jnp.uint32 or leaf.shape[-1:] != (2,):
        return False
    if not any(word in name.lower() for word in KEYS):
        raise ValueError(
            f"state{name} has the form of an old random key (uint32, two numbers); use "
            "jax.random.key, or call it key, or give it another type if it is none"
        )
    return True


def _like(leaf: Any, key: Any) -> Any:
    """A random key of the same form as this leaf."""
    if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.bits(key, leaf.shape, jnp.uint32)
    data = jax.random.bits(key, jax.random.key_data(leaf).shape, jnp.uint32)
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))


def _array(leaf: Any) -> Any:
    """A leaf of the start as an array, without a weak type."""
    array = jnp.asarray(leaf)
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array
    if array.dtype.kind in "iu" and (np.asarray(array) != np.asarray(leaf)).any():
        raise ValueError(f"start holds {leaf}, which 32 bits do not hold; give smaller numbers")
    return jnp.asarray(np.asarray(array))
