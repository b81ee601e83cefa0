"""Long-term empowerment (section 4.3): value iteration, Q-learning and a Monte-Carlo look-ahead.

All three maximise Σ_t γ^t E(s_t); the first two also plan or learn any other reward, such as a
shaped task.
"""

from dataclasses import dataclass

import numpy as np

from ..reach import Table, closure
from ..worlds.world import State, World, identify, take
from .behaviour import Behaviour, Choice, advance, count, pick, refuse_continuous, restarted
from .greedy import Greedy
from .shaping import Reward, empowerment_reward
from .value import TIE, Value

LARGEST_PLAN = 2**17
"""States that value iteration sweeps over at most; each needs its empowerment first."""


@dataclass(frozen=True)
class Planned:
    """The action with the highest Q(s, a) in a table keyed by whole states."""

    world: World
    value: Value
    table: dict[int | bytes, np.ndarray]
    """Q(s, a) of each known state, `float64[actions]`"""
    tie: float = TIE
    unknown: float = 0.0
    """Q(s, a) of states that the table does not have"""

    def __call__(self, states: State, rng: np.random.Generator) -> Choice:
        return Choice(pick(self.scores(states), rng, self.tie))

    def scores(self, states: State) -> np.ndarray:
        """Q(s, a), `float64[n, actions]`."""
        unknown = np.full(len(self.world.actions), self.unknown)
        return np.array([self.table.get(name, unknown) for name in identify(states).tolist()])


def plan(
    world: World,
    value: Value,
    gamma: float = 0.95,
    reward: Reward | None = None,
    starts: State | None = None,
    tolerance: float = 1e-10,
) -> Planned:
    """Value iteration over every state within reach of `starts`, by default those of
    `world.states()`.

    `reward` is empowerment of the next state unless another is given. Terminal states keep the
    value of their own dynamics, which stay where they are.
    """
    check_gamma(gamma)
    graph = _closure(world, world.states() if starts is None else starts)
    rewards = _rewards(world, graph, empowerment_reward(value) if reward is None else reward)
    odds = np.ones(graph.successors.shape) if graph.odds is None else graph.odds
    scores = value_iteration(graph.successors, odds, rewards, gamma, tolerance)
    # Sums over 1 / (1 - γ) steps carry that much more rounding.
    return Planned(
        world,
        value,
        dict(zip(identify(graph.states).tolist(), scores, strict=True)),
        TIE / (1 - gamma),
    )


def value_iteration(
    successors: np.ndarray,
    odds: np.ndarray,
    rewards: np.ndarray,
    gamma: float,
    tolerance: float = 1e-10,
) -> np.ndarray:
    """Q(s, a) = Σ_s' p(s'|s, a) (r + γ max_a' Q(s', a')), `float64[states, actions]`, within
    `tolerance`.

    All three arrays are `[states, actions, outcomes]`. One sweep brings Q nearer by the factor
    γ, so a change of (1 - γ) / γ times the tolerance proves it.
    """
    here = (odds * rewards).sum(axis=-1)
    scores, change = np.zeros_like(here), np.inf
    while change > tolerance * (1 - gamma) / max(gamma, 1e-12):
        after = here + gamma * (odds * scores.max(axis=1)[successors]).sum(axis=-1)
        # Where rounding forbids a smaller change, more sweeps change nothing.
        change = np.abs(after - scores).max() - 4 * np.spacing(np.abs(after).max())
        scores = after
    return scores


def q_learning(
    world: World,
    value: Value,
    gamma: float = 0.95,
    reward: Reward | None = None,
    steps: int = 2000,
    walkers: int = 32,
    length: int = 50,
    epsilon: float = 0.3,
    slowing: float | None = None,
    initial: float | None = None,
    seed: int = 0,
) -> Planned:
    """Q-learning on sampled experience: Q(s, a) += n(s, a)^-slowing (r + γ max_a' Q(s', a') -
    Q(s, a)).

    `walkers` agents take `steps` steps each, a random action with probability `epsilon`, and
    restart at a random place after `length` of them; nothing comes after a terminal state. The
    world is only played, never enumerated. `slowing` is 0 in a deterministic world and 0.6 in a
    random one unless given. `initial` is the Q of what was never tried: for empowerment as the
    reward by default that of staying at the most empowered place for ever, else 0.
    """
    check_gamma(gamma)
    refuse_continuous(world, "Q-learning")
    rng, starts = np.random.default_rng(seed), world.states()
    if initial is None:
        initial = float(value(starts).max() / (1 - gamma)) if reward is None else 0.0
    reward = empowerment_reward(value) if reward is None else reward
    slowing = (0.0 if world.deterministic else 0.6) if slowing is None else slowing
    learner, tries = Planned(world, value, {}, TIE / (1 - gamma), initial), {}
    states = take(starts, rng.integers(count(starts), size=walkers))
    for t in range(steps):
        guess = rng.integers(len(world.actions), size=walkers)
        actions = np.where(rng.random(walkers) < epsilon, guess, learner(states, rng).actions[:, 0])
        after = advance(world, states, actions, rng)
        following = np.where(world.terminal(after), 0.0, learner.scores(after).max(axis=1))
        targets = reward(states, actions, after) + gamma * following
        _update(learner, tries, states, actions, targets, slowing)
        states = restarted(world, after, (t + 1) % length == 0, rng)
    return learner


def _update(
    learner: Planned,
    tries: dict,
    states: State,
    actions: np.ndarray,
    targets: np.ndarray,
    slowing: float,
) -> None:
    for name, action, target in zip(
        identify(states).tolist(), actions.tolist(), targets, strict=True
    ):
        row = learner.table.setdefault(name, np.full(len(learner.world.actions), learner.unknown))
        tries[name, action] = tries.get((name, action), 0) + 1
        row[action] += tries[name, action] ** -slowing * (target - row[action])


@dataclass(frozen=True)
class LookAhead:
    """Monte-Carlo look-ahead: each action's mean discounted empowerment over sampled futures."""

    world: World
    value: Value
    gamma: float = 0.95
    depth: int = 20
    """steps of each future"""
    futures: int = 4
    """futures for each action; ties and chance make them differ"""
    policy: Behaviour | None = None
    """what is done after the first action; greedy where none is given, which the look-ahead then
    improves on"""

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma={self.gamma!r} must lie between 0 and 1")
        refuse_continuous(self.world, "look-ahead")

    def __call__(self, states: State, rng: np.random.Generator) -> Choice:
        return Choice(pick(self.scores(states, rng), rng))

    def scores(self, states: State, rng: np.random.Generator) -> np.ndarray:
        """Mean of Σ_t γ^t E(s_{t+1}) over the futures of every action, `float64[n, actions]`."""
        policy = Greedy(self.world, self.value) if self.policy is None else self.policy
        n, actions = count(states), len(self.world.actions)
        here = take(states, np.repeat(np.arange(n), actions * self.futures))
        move = np.tile(np.repeat(np.arange(actions), self.futures), n)
        total = np.zeros(len(move))
        for t in range(self.depth):
            here = advance(self.world, here, move, rng)
            total += self.gamma**t * self.value(here)
            move = policy(here, rng).actions[:, 0] if t + 1 < self.depth else move
        return total.reshape(n, actions, self.futures).mean(axis=-1)


def check_gamma(gamma: float) -> None:
    if not 0 <= gamma < 1:  # also refuses NaN
        raise ValueError(f"gamma={gamma} does not discount; give a number from 0 to below 1")


def _closure(world: World, starts: State) -> Table:
    table = closure(world, starts, LARGEST_PLAN)
    if table.size > LARGEST_PLAN:
        raise ValueError(
            f"world {world.name!r} has too many states for value iteration, more than "
            f"{LARGEST_PLAN:,}; "
            "use q_learning or LookAhead, or give fewer starts"
        )
    return table


def _rewards(world: World, graph: Table, reward: Reward) -> np.ndarray:
    """The reward of every outcome of every action, `float64[states, actions, outcomes]`."""
    m, actions, outcomes = graph.successors.shape
    states = take(graph.states, np.repeat(np.arange(m), actions * outcomes))
    moves = np.tile(np.repeat(np.arange(actions), outcomes), m)
    return reward(states, moves, take(graph.states, graph.successors.ravel())).reshape(
        graph.successors.shape
    )
