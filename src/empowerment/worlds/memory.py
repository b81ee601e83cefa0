"""What was seen of an environment that can only be acted in: distinct observations, and counts of
what followed what.

Where observations repeat, the counts make a table, which is a world whose states can be set: the
environment is then learned as well as any other. Whether it is random is read off the counts.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from scipy.special import xlog1py, xlogy
from tqdm import tqdm

from .learnable import HostWorld
from .table import TableWorld
from .world import World

LARGEST_MEMORY = 2**30
"""Bytes of observations and counts; no more are kept."""
MOST_OUTCOMES = 64
"""Different outcomes of one action, beyond which observations do not tell the state."""
TWICE, MANY, SURE = 2, 1000, 50
"""How often each action is tried in each state: in an environment that has shown no randomness;
where the action has had several outcomes; and elsewhere in an environment with randomness."""
LEVELS = (TWICE, 10, 50, 200, MANY)
"""So many tries are wanted everywhere before any more are."""
STEPS, PATIENCE = 2**21, 2**17
"""Steps of all copies together, at most and without anything new."""
FIRST_STEPS, NOVEL = 2**13, 0.5
"""After so many steps, an environment is given up where a larger share of what random play sees is
new."""
SWITCH, RANDOM = 0.02, 0.125
"""Per step, the probability that a copy chooses its mode again, and the probability that it then
chooses random play, instead of heading for untried actions."""
DETOUR = 2.0
"""Steps by which a way to untried actions may be longer than the shortest, so that copies take
different ways."""
HISTORIES = 2**18
"""Transitions that are kept with the one before."""
LEVELS_OF_ODDS, ROUNDS = 512, 100
"""Levels of probability that are distinguished, and iterations of the EM algorithm."""
MOST_SHRUNK = 7000
"""From this many tries on, raw frequencies are used: they are finer than the grid of levels."""
DEPENDENT = 0.02
"""Nats that the transition before may tell of an outcome, beyond what chance would give."""


class ObservedTable(TableWorld):
    """A table whose states were distinguished by what was seen in them."""

    def __init__(
        self, successors: np.ndarray, odds: np.ndarray, frames: np.ndarray, **options: Any
    ):
        super().__init__(successors, odds, frames=frames, **options)
        self.observations = frames
        """What is seen in each state."""

    def index(self, x: Any) -> np.ndarray:
        """The number of the state in which each of these observations is seen, -1 where none is.

        States in which an episode continues come before those in which it ends.
        """
        order = np.argsort(self.terminal(np.arange(self.size)), kind="stable")[::-1]
        known = {self.observations[i].tobytes(): i for i in order}
        given = plain(x, self.observations.dtype)
        if given.shape[1:] != self.observations.shape[1:]:
            raise ValueError(
                f"x has shape {given.shape}; give observations of shape "
                f"(n, {', '.join(map(str, self.observations.shape[1:]))})"
            )
        return np.array([known.get(frame.tobytes(), -1) for frame in given], np.int64)


def plain(frames: Any, dtype: Any) -> np.ndarray:
    """Observations whose bytes are equal where their numbers are: without a negative zero."""
    frames = np.ascontiguousarray(frames, dtype)
    return frames + 0.0 if frames.dtype.kind == "f" else frames


def to_arrays(world: World) -> dict[str, np.ndarray]:
    """A table of what was seen as arrays; nothing for any other world."""
    if not isinstance(world, ObservedTable):
        return {}
    ended = np.asarray(world.terminal(np.arange(world.size)))
    return {
        "successors": world.successors,
        "odds": world.odds,
        "observations": world.observations,
        "ended": ended,
    }


def from_arrays(
    arrays: dict[str, np.ndarray], name: str, actions: tuple[str, ...] | None = None
) -> ObservedTable:
    """The world that these arrays are of."""
    alive = np.flatnonzero(~arrays["ended"])
    return ObservedTable(
        arrays["successors"],
        arrays["odds"],
        arrays["observations"],
        name=name,
        actions=actions,
        start=int(alive[0]) if len(alive) else 0,
        terminals=arrays["ended"],
        shown=alive,
    )


class Memory:
    """Distinct observations, numbered in the order they were first seen, and counts of what
    followed what.

    An observation that ended an episode and the same one that did not have different numbers.

    >>> memory = Memory((1,), np.float32, actions=2)
    >>> states = memory.number(np.array([[0.0], [5.0], [0.0]]))
    >>> states
    array([0, 1, 0], dtype=int32)
    >>> memory.add(states[:2], np.array([1, 0]), states[1:])
    >>> memory.tried
    array([[0, 1],
           [1, 0]])
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, actions: int):
        self.shape, self.dtype, self.actions = shape, np.dtype(dtype), actions
        self._numbers: dict[bytes, int] = {}
        self._successors = np.full((64, actions, 1), -1, np.int32)
        self._counts = np.zeros((64, actions, 1), np.int64)
        self._ended = np.zeros(64, bool)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def successors(self) -> np.ndarray:
        """`int32[states, actions, outcomes]`: what followed, -1 where there is room for more."""
        return self._successors[: len(self)]

    @property
    def counts(self) -> np.ndarray:
        """`int64[states, actions, outcomes]`: how often each did."""
        return self._counts[: len(self)]

    @property
    def ended(self) -> np.ndarray:
        """`bool[states]`: whether an episode ended there."""
        return self._ended[: len(self)]

    @property
    def tried(self) -> np.ndarray:
        """`int64[states, actions]`: how often each action was taken in each state."""
        return self.counts.sum(-1)

    @property
    def frames(self) -> np.ndarray:
        """All observations, in order."""
        joined = b"".join(key[:-1] for key in self._numbers)
        return np.frombuffer(joined, self.dtype).reshape(len(self), *self.shape)

    @property
    def bytes(self) -> int:
        """What it takes."""
        each = int(np.prod(self.shape)) * self.dtype.itemsize + 150
        return len(self) * each + self._successors.nbytes + self._counts.nbytes

    def number(self, frames: np.ndarray, ended: np.ndarray | None = None) -> np.ndarray:
        """The number of each observation, a new one where it has not been seen."""
        frames = plain(frames, self.dtype)
        ended = np.zeros(len(frames), bool) if ended is None else ended
        numbers, known = np.empty(len(frames), np.int32), self._numbers
        for i, (frame, over) in enumerate(zip(frames, ended, strict=True)):
            numbers[i] = known.setdefault(frame.tobytes() + bytes([bool(over)]), len(known))
        self._grow(len(known))
        self._ended[numbers] = ended
        return numbers

    def add(self, before: np.ndarray, actions: np.ndarray, after: np.ndarray) -> None:
        """Count transitions between numbered observations."""
        code = np.ravel_multi_index((before, actions, after), (len(self), self.actions, len(self)))
        code, times = np.unique(code, return_counts=True)
        state, action, then = np.unravel_index(code, (len(self), self.actions, len(self)))
        slots = self._slots(state, action, then)
        self._counts[state, action, slots] += times

    def wanted(self) -> np.ndarray:
        """`bool[states, actions]`: which have not been tried often enough; first all of them a few
        times, then all of them more often, so that those that are hard to come to are not last."""
        outcomes = (self.counts > 0).sum(-1)
        random = bool((outcomes > 1).any())
        often = np.where(outcomes > 1, MANY, SURE if random else TWICE)
        fewest = np.where(self.ended[:, None], MANY, self.tried)
        level = next((level for level in LEVELS if (fewest < np.minimum(often, level)).any()), MANY)
        return fewest < np.minimum(often, level)

    def world(self, name: str, actions: tuple[str, ...] | None = None) -> ObservedTable:
        """The table of what was seen, as a world. An action that was never tried in a state does
        there what the most tried one does, which adds nothing to its empowerment. States in which
        nothing was tried are dead ends."""
        successors, counts = self.successors.copy(), self.counts.astype(float)
        most = self.tried.argmax(-1)
        state, action = np.nonzero(self.tried == 0)
        successors[state, action] = successors[state, most[state]]
        counts[state, action] = counts[state, most[state]]
        dead = self.ended | (self.tried.sum(-1) == 0)
        counts[dead] = 0.0
        counts[dead, :, 0] = 1.0
        odds = shrunk(counts)
        here = np.arange(len(self))[:, None, None]
        successors = np.where((odds > 0) & ~dead[:, None, None], successors, here)
        arrays = {"successors": successors, "odds": odds, "ended": dead}
        return from_arrays(arrays | {"observations": self.frames}, name, actions)

    def _slots(self, state: np.ndarray, action: np.ndarray, then: np.ndarray) -> np.ndarray:
        """Which outcome each of some distinct transitions is, a new one where it has not been
        seen."""
        slots = np.zeros(len(state), np.int64)
        for i in np.flatnonzero(self._successors[state, action, 0] != then):
            listed = self._successors[state[i], action[i]]
            found = np.flatnonzero((listed == then[i]) | (listed < 0))
            slots[i] = found[0] if len(found) else len(listed)
            if not len(found):
                self._widen()
            self._successors[state[i], action[i], slots[i]] = then[i]
        return slots

    def _grow(self, size: int) -> None:
        """Room for so many states."""
        room = len(self._ended)
        if size <= room:
            return
        more = max(size, 2 * room) - room
        self._successors = _longer(self._successors, more, -1)
        self._counts = _longer(self._counts, more, 0)
        self._ended = _longer(self._ended, more, False)

    def _widen(self) -> None:
        """Room for twice as many outcomes of an action."""
        more = self._counts.shape[2]
        self._successors = np.pad(self._successors, [(0, 0)] * 2 + [(0, more)], constant_values=-1)
        self._counts = np.pad(self._counts, [(0, 0)] * 2 + [(0, more)])


def shrunk(counts: np.ndarray) -> np.ndarray:
    """Probabilities of outcomes from counts, `[..., outcomes]`, by empirical Bayes.

    Randomness is much alike from place to place: a slip happens as often here as there. So the
    distribution of all probabilities is estimated first (its non-parametric maximum-likelihood
    estimate, by the EM algorithm on a grid that is even in the arcsine of √p, where binomial noise
    is even), and each probability is its posterior mean. Outcomes that were always, never or very
    often seen keep their share.
    """
    tried = np.broadcast_to(counts.sum(-1, keepdims=True), counts.shape)
    odds = counts / np.maximum(tried, 1)
    random = (counts > 0) & (counts < tried) & (tried < MOST_SHRUNK)
    if random.any():
        pairs = np.stack([counts[random], tried[random]])
        (seen, of), which, times = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
        levels = np.sin((np.arange(LEVELS_OF_ODDS) + 0.5) / LEVELS_OF_ODDS * np.pi / 2) ** 2
        log_likelihood = xlogy(seen[:, None], levels) + xlog1py((of - seen)[:, None], -levels)
        likelihood = np.exp(log_likelihood - log_likelihood.max(1, keepdims=True))
        weights = np.full(LEVELS_OF_ODDS, 1 / LEVELS_OF_ODDS)
        for _ in range(ROUNDS):
            weights *= (times / (likelihood @ weights)) @ likelihood / len(which.ravel())
        mean = (likelihood @ (weights * levels)) / (likelihood @ weights)
        odds[random] = mean[which.ravel()]
    return odds / np.maximum(odds.sum(-1, keepdims=True), 1e-300)


def _longer(array: np.ndarray, more: int, fill: Any) -> np.ndarray:
    return np.concatenate([array, np.full((more, *array.shape[1:]), fill, array.dtype)])


def _information(rows: np.ndarray) -> float:
    """Nats that the first two columns tell of the last one, given the two between, as counted."""
    past, pair, outcome, both = (
        np.unique(rows[:, columns], axis=0, return_inverse=True, return_counts=True)[1:]
        for columns in ([0, 1, 2, 3], [2, 3], [2, 3, 4], [0, 1, 2, 3, 4])
    )
    n = [counts[which.ravel()] for which, counts in (both, pair, past, outcome)]
    return float(np.log(n[0] * n[1] / (n[2] * n[3])).mean())


class Explored(NamedTuple):
    """What exploration gave."""

    world: World
    """The table of what was seen; the environment itself where its observations hardly repeat, or
    do not tell its state."""
    steps: int
    """Steps of all copies together."""


def explored(world: World, seed: int, progress: bool = False) -> Explored:
    """A world whose states can be set in place of an environment that can only be acted in.

    Copies of the environment act until each action has been tried often enough wherever they can
    come to: some play at random, the others go to where actions are untried. A world that is
    settable stays as it is.
    """
    if not isinstance(world, HostWorld) or world.continuous is not None:
        return Explored(world, 0)
    play = Exploration(world, seed)
    with tqdm(total=STEPS, unit="step", desc="exploring", disable=not progress, delay=1) as bar:
        while play.step():
            bar.update(world.copies)
            bar.set_postfix_str(f"{len(play.memory):,} observations", refresh=False)
    useful = play.repeats and play.dependence() <= DEPENDENT
    return Explored(play.memory.world(world.name, world.actions) if useful else world, play.steps)


class Exploration:
    """Copies of an environment, and the memory that they fill."""

    def __init__(self, env: HostWorld, seed: int):
        self.env, self._rng = env, np.random.default_rng(seed)
        env.begin(int(self._rng.integers(2**31)))
        self.memory = Memory(env.shape, env.seen.dtype, len(env.actions))
        self.steps = 0
        self._state = self.memory.number(env.seen)
        self._at_random = np.arange(env.copies) % 8 == 0
        self._novel = 1.0
        """Running share of what random play sees that is new."""
        self._last_find = 0
        self._last = np.full((env.copies, 2), -1, np.int32)
        """State and action before, -1 where an episode has just begun."""
        self._histories = np.zeros((HISTORIES, 5), np.int32)
        """State, action, state, action, state: two transitions in a row."""
        self._recorded = 0
        self._actions = len(env.actions)
        self._wanted = np.zeros((0, self._actions), bool)
        self._far = np.zeros((0, self._actions))
        """Steps to a state with untried actions by each action; 0 where it is such a state."""
        self._next_plan = 0

    @property
    def repeats(self) -> bool:
        """Whether observations repeat, as far as is known."""
        few = self.memory.counts.shape[2] <= MOST_OUTCOMES
        return few and (self.steps <= FIRST_STEPS or self._novel <= NOVEL)

    def step(self) -> bool:
        """One step of every copy; False once there is no use in more."""
        env, memory, rng = self.env, self.memory, self._rng
        if self.steps >= self._next_plan and not self._plan():
            return False
        switching = rng.random(env.copies) < SWITCH
        self._at_random = np.where(switching, rng.random(env.copies) < RANDOM, self._at_random)
        chosen = rng.integers(self._actions, size=env.copies)
        actions = np.where(self._at_random, chosen, self._directed())
        before, awake, known = self._state, ~env.needs_reset, len(memory)
        result = env.move(actions)
        after = memory.number(result.end, result.terminated & awake)
        memory.add(before[awake], actions[awake], after[awake])
        self._record(awake, before, actions, after)
        over = (result.terminated | result.truncated) & awake
        self._last = np.where((awake & ~over)[:, None], np.stack([before, actions], axis=1), -1)
        self._state = after.copy()
        fresh = ~env.needs_reset & (over | ~awake)
        if fresh.any():
            self._state[fresh] = memory.number(env.seen[fresh])
        self.steps += env.copies
        self._judge(before, actions, after, known)
        full = memory.bytes > LARGEST_MEMORY or self.steps >= STEPS
        stale = self.steps - self._last_find > PATIENCE
        return self.repeats and not full and not stale

    def dependence(self) -> float:
        """Nats that the transition before tells of an outcome, given observation and action, less
        what chance alone would give: above zero where observations do not tell the state."""
        rows = self._histories[: self._recorded]
        several = (self.memory.counts[rows[:, 2], rows[:, 3]] > 0).sum(-1) > 1
        rows = rows[several]
        if not len(rows):
            return 0.0
        # What it tells where outcomes are shuffled among equal pairs is chance.
        pair = rows[:, 2] * self._actions + rows[:, 3]
        mixed = rows.copy()
        shuffled = np.lexsort((self._rng.random(len(rows)), pair))
        mixed[np.argsort(pair, kind="stable"), 4] = rows[shuffled, 4]
        excess = _information(rows) - _information(mixed)
        return max(excess, 0.0) * len(rows) / self._recorded

    def _record(self, awake: Any, before: Any, actions: Any, after: Any) -> None:
        """Keep transitions together with the one before."""
        whole = awake & (self._last[:, 0] >= 0)
        parts = [*self._last[whole].T, before[whole], actions[whole], after[whole]]
        rows = np.stack(parts, axis=1)[: HISTORIES - self._recorded]
        self._histories[self._recorded : self._recorded + len(rows)] = rows
        self._recorded += len(rows)

    def _judge(self, before: Any, actions: Any, after: Any, known: int) -> None:
        """Whether there was anything new."""
        planned = before < len(self._wanted)
        useful = self._wanted[before[planned], actions[planned]].any() if planned.any() else False
        if useful or len(self.memory) > known:
            self._last_find = self.steps
        share = float((after[self._at_random] >= known).mean()) if self._at_random.any() else 0.0
        rate = min(4 * self.env.copies / FIRST_STEPS, 1.0)
        self._novel += (share - self._novel) * rate

    def _directed(self) -> np.ndarray:
        """For each copy: the action tried least, in a state where one is wanted; elsewhere a step
        towards such a state, by ways that differ from copy to copy."""
        states, noise = self._state, self._rng.random((len(self._state), self._actions))
        tried = self.memory.tried[states] + noise
        planned = states < len(self._far)
        far = np.zeros_like(noise)
        far[planned] = self._far[states[planned]]
        ways = np.where(far > 0, far + DETOUR * noise, np.inf)
        return np.where((far > 0).any(-1), ways.argmin(-1), tried.argmin(-1))

    def _plan(self) -> bool:
        """Work out how far each action leaves each state from one with untried actions; False where
        there are none left."""
        self._wanted, size = self.memory.wanted(), len(self.memory)
        goal = self._wanted.any(-1)
        self._next_plan = self.steps + max(8 * self.env.copies, size // 16)
        if not goal.any():
            return False
        successors, counts = self.memory.successors, self.memory.counts
        state, action, outcome = np.nonzero(counts)
        edges = (np.ones(len(state)), (successors[state, action, outcome], state))
        backwards = sparse.csr_array(edges, shape=(size, size))
        goals = np.flatnonzero(goal)
        far = dijkstra(backwards, indices=goals, unweighted=True, min_only=True)
        far = np.minimum(far, size)  # where no way is known
        tried = counts.sum(-1)
        mean = 1 + (counts * far[np.maximum(successors, 0)]).sum(-1) / np.maximum(tried, 1)
        self._far = np.where(goal.reshape(-1, 1) | (tried == 0), 0.0, mean)
        return True
