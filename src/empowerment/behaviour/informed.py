"""Reward and empowerment in one Bellman equation: return, plus what information is worth."""

import math
from dataclasses import dataclass, replace

import numpy as np

from ..exact import check_feedback, check_horizon, check_states
from ..feedback import Task, feedback_values
from ..reach import closure
from ..worlds.world import State, World, identify
from .behaviour import Choice, refuse_continuous
from .planning import LARGEST_PLAN
from .value import Value

TOLERANCE = 1e-9
"""Nats to which each step is closed."""


@dataclass(frozen=True)
class Informed:
    """Draws each action from the best distribution at the state that the agent sees."""

    table: dict[int | bytes, tuple[float, np.ndarray]]
    """Value and source of each known state."""

    def __call__(self, states: State, rng: np.random.Generator) -> Choice:
        sources = [source for _, source in self._known(states)]
        return Choice(np.array([rng.choice(len(p), p=p) for p in sources])[:, None])

    def value(self, states: State) -> np.ndarray:
        """V(s) of each state."""
        return np.array([value for value, _ in self._known(states)])

    def _known(self, states: State) -> list[tuple[float, np.ndarray]]:
        names = identify(states).tolist()
        if not self.table.keys() >= set(names):
            raise ValueError(
                "some of these states were not planned for; give starts= from which they can be "
                "reached"
            )
        return [self.table[name] for name in names]


def plan_informed(
    world: World,
    reward: Value,
    temperature: float,
    discount: float = 0.95,
    horizon: int | float = math.inf,
    starts: State | None = None,
) -> Informed:
    """V_k(s) = max over ω(a|s) of E[R(s') + discount V_{k-1}(s')] + temperature I(a; s'|s).

    `reward` is R, what it pays to come to each state of a batch. With temperature 0 this is value
    iteration; without reward it is temperature times empowerment with feedback. Nothing is paid
    after an episode has ended.

    >>> from empowerment import make
    >>> world = make("open-room")
    >>> nothing = lambda states: 0.0 * states.agent
    >>> informed = plan_informed(world, nothing, 1.0, discount=1.0, horizon=3)
    >>> float(informed.value(world.states()).max().round(4))  # 3 ln 5
    4.8283
    """
    refuse_continuous(world, "plan_informed")
    check_feedback(True, discount)
    if not math.isfinite(temperature) or temperature < 0:
        raise ValueError(f"temperature={temperature!r} must be a number of 0 or more")
    if horizon == math.inf and discount == 1:
        raise ValueError("horizon=inf needs a discount below 1; give one, or a finite horizon")
    if horizon != math.inf:
        check_horizon(horizon)
    first = world.states() if starts is None else check_states(world, starts)
    table = closure(world, first, LARGEST_PLAN)
    if not table.closed or table.states is None:
        raise ValueError(
            f"world {world.name!r} has more than {LARGEST_PLAN:,} states; give fewer starts="
        )
    paid = np.asarray(reward(table.states), np.float64)
    if paid.shape != (table.size,) or not np.isfinite(paid).all():
        raise ValueError(
            f"reward gives shape {paid.shape} for {table.size} states, or no finite numbers; give "
            "one number for each state"
        )
    task = Task(paid, np.asarray(world.terminal(table.states)), float(temperature))
    everywhere = np.arange(table.size, dtype=np.int32)
    found = feedback_values(
        replace(table, starts=everywhere), horizon, discount, TOLERANCE, task=task
    )
    names = identify(table.states).tolist()
    return Informed(
        dict(zip(names, zip(found.lower.tolist(), found.source, strict=True), strict=True))
    )
