"""Playing sequences in a world on the device, with chance drawn."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from ..worlds.world import State, World, pick_outcome


def act(world: World, state: State, actions: Any, ends: int = 1, *, key: Key[Array, ""]) -> State:
    """The state after a whole sequence, with chance drawn; `ends` rows after one another play the
    same from the same start, and chance is spread evenly over them (`StratifiedOutcomes`)."""

    def step(carry: tuple[State, Any], now: Any) -> tuple[tuple[State, Any], None]:
        (state, outcomes), (action, key) = carry, now
        if outcomes is None:
            outcome = draw_outcome(world, state, action, key=key)
        else:
            outcome, outcomes = outcomes.draw(
                jnp.asarray(world.probabilities(state, action)), key=key
            )
        return (world.step(state, action, outcome), outcomes), None

    first, key = jax.random.split(key)
    outcomes = (
        StratifiedOutcomes.spread(len(actions), ends, key=first)
        if ends > 1 and world.outcomes
        else None
    )
    keys, carry = jax.random.split(key, actions.shape[1]), (state, outcomes)
    if world.on_host:  # cannot be compiled
        for k, key in enumerate(keys):
            carry, _ = step(carry, (actions[:, k], key))
        return carry[0]
    return jax.lax.scan(step, carry, (jnp.moveaxis(actions, 1, 0), keys))[0][0]


class StratifiedOutcomes(NamedTuple):
    """Stratified uniform numbers, one for each row, that outcomes are drawn with.

    After each step, the unused part of a number is rescaled to 0..1 and used for the next step, so
    that the first number determines the whole trajectory. Numbers spread evenly over a group of
    rows therefore stratify trajectories: each row is an unbiased draw, and the mean over a group
    varies less than that of independent draws (40 to 50 % less for `ln q` with slip 0.1).
    """

    numbers: Float[Array, "n"]
    grain: Float[Array, "n"]
    """Rounding error of each number. Digits below it are drawn again."""

    @classmethod
    def spread(cls, rows: int, group: int, *, key: Key[Array, ""]) -> "StratifiedOutcomes":
        first = jax.random.uniform(key, (rows // group, 1))
        numbers = (first + jnp.arange(group)[None] / group).reshape(-1) % 1.0
        return cls(numbers, jnp.full(rows, jnp.finfo(jnp.float32).eps))

    def draw(
        self, probabilities: Float[Array, "n outcomes"], *, key: Key[Array, ""]
    ) -> "tuple[Any, StratifiedOutcomes]":
        """An outcome for each row, and the numbers for the next step."""
        outcome = pick_outcome(probabilities, self.numbers)
        shares = (probabilities / probabilities.sum(-1)[:, None]).astype(jnp.float32)
        share, upper = (
            jnp.take_along_axis(x, outcome[:, None], 1)[:, 0]
            for x in (shares, jnp.cumsum(shares, axis=-1))
        )
        grain = jnp.minimum(self.grain / share, 1.0)
        rest = jnp.clip((self.numbers - (upper - share)) / share, 0.0, 1.0)
        fresh = (1 - grain) * rest + grain * jax.random.uniform(key, grain.shape)
        return outcome, StratifiedOutcomes(
            jnp.minimum(fresh, 1 - jnp.finfo(jnp.float32).eps), grain
        )


def draw_outcome(
    world: World, state: State, action: Any, *, key: Key[Array, ""]
) -> Shaped[Array, "n ..."]:
    """An index into the probabilities of each action's outcomes, or the noise of worlds that cannot
    list them."""
    if world.noise:
        return jax.random.normal(key, (len(action), world.noise))
    if world.deterministic:
        return jnp.zeros(len(action), jnp.int32)
    return pick_outcome(
        jnp.asarray(world.probabilities(state, action)), jax.random.uniform(key, (len(action),))
    )
