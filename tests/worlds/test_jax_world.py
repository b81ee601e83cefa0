"""Worlds from functions written in JAX; what is proved of them, and what is refused."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empowerment as emp
from empowerment.worlds import dependence
from empowerment.worlds.environment import WorldEnv


class Walker(NamedTuple):
    """A place on a line of nine cells, a clock that nobody sees, and a random key."""

    place: Any
    clock: Any
    key: Any


START = Walker(jnp.int32(4), jnp.int32(0), jax.random.key(7))


def walk(key, state, action):
    place = jnp.clip(state.place + action - 1, 0, 8)
    return Walker(place, state.clock + 1, jax.random.split(state.key)[0])


def slide(key, state, action):
    slips = jax.random.bernoulli(key, 0.25)
    return Walker(jnp.where(slips, state.place, walk(key, state, action).place), *state[1:])


def place(state):
    return jax.nn.one_hot(state.place, 9)


def line(step: Any = walk, **given):
    return emp.from_jax(step, START, 3, place, **given)


def test_clocks_and_keys_are_left_out_and_the_rest_is_exact():
    world = line()
    assert world.deterministic
    assert [np.asarray(x).tolist() for x in world.states()] == [[4, 3, 5, 2, 6, 1, 7, 0, 8]]
    exact = emp.exact(world, 2)
    by_hand = {p: len({min(max(p + d, 0), 8) for d in range(-2, 3)}) for p in range(9)}
    assert np.exp(exact.nats).round(9).tolist() == [by_hand[int(p)] for p in world.states()[0]]


def test_states_may_be_any_pytree():
    world = emp.from_jax(
        lambda key, state, action: (state[0], {"x": (state[1]["x"] + action) % 5}),
        (jnp.int32(3), {"x": 1}),
        2,
    )
    assert world.start._fields == ("state_0_0", "state_1_x_1")
    assert np.exp(emp.exact(world, 2).nats) == pytest.approx(3)


def test_the_start_takes_the_type_that_the_step_gives():
    world = emp.from_jax(lambda key, state, action: (state + 0.5 * action) % 3, 0, 2)
    assert np.exp(emp.exact(world, 3).nats) == pytest.approx(4)


def test_a_single_state_and_none_at_all_are_stepped():
    world = line()
    assert not world.terminal(world.start)
    assert world.step(world.start, 2, 0)[0] == 5
    none = jax.tree.map(lambda x: np.zeros((0, *np.shape(x)), np.asarray(x).dtype), world.start)
    assert np.shape(world.observe(none)) == (0, 9)
    env = WorldEnv(world)
    env.reset(seed=0)
    assert env.step(1)[0].shape == (9,)


def test_numbers_that_hold_a_random_key_are_named_so_or_refused():
    def step(key, state, action):
        return (state[0] + jax.random.bernoulli(state[1], 0.5)) % 5, jax.random.split(state[1])[0]

    with pytest.raises(ValueError, match=r"form of an old random key.*use jax.random.key"):
        emp.from_jax(step, (0, jax.random.PRNGKey(0)), 2)
    assert not emp.from_jax(step, (0, jax.random.key(0)), 2).deterministic


def test_a_step_may_close_over_a_key():
    own = jax.random.key(3)
    world = emp.from_jax(lambda k, s, a: (s + a + jax.random.randint(own, (), 0, 2)) % 5, 0, 2)
    assert world.deterministic


def test_where_an_episode_has_ended_nothing_changes():
    world = line(terminal=lambda state: state.place == 5)
    assert sorted(np.asarray(world.states()[0]).tolist()) == [0, 1, 2, 3, 4, 5]
    exact = dict(zip(world.states()[0].tolist(), emp.exact(world, 3).nats.tolist(), strict=True))
    assert exact[5] == 0
    assert exact[4] == pytest.approx(np.log(5))  # 1, 2, 3, 4 and the end


def test_a_step_that_uses_its_key_is_not_proved_and_has_no_exact_value():
    world = line(slide)
    assert not world.deterministic
    said = r"depends on the random key \(state.place, what is seen\).*give their probabilities="
    with pytest.raises(ValueError, match=said):
        emp.exact(world, 2)


def test_outcomes_listed_by_hand_make_a_random_world_exact():
    def slip(outcome, state, action):
        return walk(None, state, jnp.where(outcome == 0, 1, action))

    world = emp.from_jax(
        slip, START, np.int64(3), place, None, lambda s, a: jnp.array([0.25, 0.75])
    )
    assert len(world.states()[0]) == 9
    p = np.array([[1, 0, 0], [0.25, 0.75, 0], [0.25, 0, 0.75]])
    exact = dict(zip(world.states()[0].tolist(), emp.exact(world, 1).nats.tolist(), strict=True))
    assert exact[4] == pytest.approx(emp.capacity(p).nats, abs=1e-6)
    with pytest.raises(ValueError, match="probabilities that are negative, or do not add up to 1"):
        emp.exact(emp.from_jax(slip, START, 3, place, None, lambda s, a: jnp.array([0.5, 1])), 1)
    with pytest.raises(ValueError, match=r"probabilities of shape \(\)"):
        emp.from_jax(slip, START, 3, place, None, lambda s, a: jnp.float32(1))


def test_a_key_that_only_the_clock_depends_on_proves_nothing_wrong():
    def step(key, state, action):
        return walk(key, state, action)._replace(clock=jax.random.randint(key, (), 0, 9))

    assert line(step).deterministic
    seen = emp.from_jax(step, START, 3, lambda state: jnp.stack([state.place, state.clock]))
    assert not seen.deterministic


@pytest.mark.parametrize("old", [False, True])
def test_a_state_that_carries_its_own_randomness_is_random(old):
    def step(key, state, action):
        own = jax.random.wrap_key_data(state.key) if old else state.key
        slips, after = jax.random.bernoulli(own, 0.25), walk(key, state._replace(key=own), action)
        place = jnp.where(slips, state.place, after.place)
        return Walker(place, after.clock, jax.random.key_data(after.key) if old else after.key)

    start = START._replace(key=jax.random.key_data(START.key)) if old else START
    world = emp.from_jax(step, start, 3, place)
    assert not world.deterministic
    assert world.start._fields == ("state_place_0",)
    rng = np.random.default_rng(0)
    here, right = jax.tree.map(lambda x: np.repeat(x[None], 4096, 0), world.start), np.full(4096, 2)
    after = world.step(here, right, world.draw_outcome(here, right, rng))
    assert np.mean(np.asarray(after[0]) == 5) == pytest.approx(0.75, abs=0.03)


def test_random_steps_happen_as_often_as_they_should():
    world = line(slide)
    rng = np.random.default_rng(0)
    start = jax.tree.map(lambda x: np.repeat(x[None], 4096, 0), world.start)
    right = np.full(4096, 2)
    after = world.step(start, right, world.draw_outcome(start, right, rng))
    assert np.mean(np.asarray(after[0]) == 5) == pytest.approx(0.75, abs=0.03)


def test_without_the_private_function_of_jax_nothing_is_proved(monkeypatch):
    monkeypatch.setattr(dependence, "dce_jaxpr", None)
    assert not line().deterministic


def test_learned_on_the_device_beside_exact():
    world = line()
    est = emp.train(world, 2, updates=400, batch=128, hidden=32, features=32)
    found = emp.compare(est.landscape(), emp.exact(world, 2))
    assert found.r2 > 0.9


def test_a_world_that_uses_its_key_is_learned():
    est = emp.train(line(slide), 1, updates=5, batch=32, hidden=16, features=16)
    assert np.isfinite(est.empowerment(np.asarray(est.world.observe(est.world.states())))).all()


COUNTER = [0]


def changes(key, state, action):
    COUNTER[0] += 1
    return state._replace(place=jnp.clip(state.place + COUNTER[0], 0, 8))


def test_a_step_that_is_not_pure_is_refused():
    with pytest.raises(ValueError, match=r"not pure: traced twice.*two different programs"):
        line(changes)


def test_a_step_that_leaves_jax_is_refused():
    def step(key, state, action):
        return state._replace(place=int(state.place) + 1)

    with pytest.raises(ValueError, match=r"'line' cannot be traced by JAX \(.*write step with"):
        line(step, name="line")


def test_a_step_that_wants_the_network_is_refused():
    def step(key, state, action):
        raise ConnectionError("no route to host")

    with pytest.raises(ValueError, match=r"cannot be traced.*ConnectionError: no route to host"):
        line(step)


def test_states_that_change_their_shape_are_refused():
    def step(key, state, action):
        return state._replace(place=jnp.stack([state.place, action]))

    with pytest.raises(ValueError, match=r"changes the shape of state.place from \(\) to \(2,\)"):
        line(step)
    with pytest.raises(ValueError, match="another structure"):
        line(lambda key, state, action: state.place)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("walk", START, 3), "step is a str; give a function"),
        ((walk, None, 3), "with start= and actions="),
        ((walk, START, 0), "actions=0 must be a whole number of 1 or more"),
        ((walk, START, True), "actions=True must be"),
        ((walk, np.int64(2**33 + 5), 2), "which 32 bits do not hold"),
    ],
)
def test_bad_input(given, said):
    with pytest.raises(ValueError, match=said):
        emp.from_jax(*given)
