"""Environments of other packages in JAX: what is proved, and their values by a slow way of our
own."""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empowerment as emp

GYMNAX, XLAND = "gymnax", "xminigrid"


def package(name: str) -> Any:
    return pytest.importorskip(name, reason=f"needs {name}")


def xland(name: str) -> Any:
    return package(XLAND).make(name)


def slow_values(step, key_of, start, actions: int, horizon: int) -> dict[Any, float]:
    """ln of how many states each state leads to, one state and one action at a time."""
    known, after, queue = {key_of(start): start}, {}, [start]
    while queue:
        state = queue.pop()
        for action in range(actions):
            new = step(state, action)
            after[key_of(state), action] = key_of(new)
            if key_of(new) not in known:
                known[key_of(new)] = new
                queue.append(new)
    values = {}
    for name in known:
        ends = {name}
        for _ in range(horizon):
            ends = {after[end, action] for end, action in itertools.product(ends, range(actions))}
        values[name] = float(np.log(len(ends)))
    return values


def slow_xland(env: Any, params: Any, horizon: int) -> dict[Any, float]:
    """By the package's own step, from its own reset; a state is what can be seen and carried."""
    step = jax.jit(env.step)

    def name(timestep: Any) -> bytes:
        agent = timestep.state.agent
        parts = (timestep.state.grid, agent.position, agent.direction, agent.pocket)
        over = timestep.last() and not timestep.state.step_num >= params.max_steps
        return b"".join(np.asarray(x).tobytes() for x in (*parts, over))

    def absorbed(timestep: Any, action: int) -> Any:
        return timestep if timestep.last() else step(params, timestep, action)

    start = env.reset(params, jax.random.key(0))
    return slow_values(absorbed, name, start, int(env.num_actions(params)), horizon)


def test_xland_empty_is_proved_enumerated_and_worth_what_minigrid_is_worth():
    env, params = xland("MiniGrid-Empty-5x5")
    world = emp.from_jax((env, params))
    assert world.deterministic
    exact = emp.exact(world, 3)
    slow = slow_xland(env, params.replace(max_steps=10**6), 3)
    np.testing.assert_allclose(sorted(exact.nats), sorted(slow.values()), atol=1e-9)
    # MiniGrid has the same walls, turns and goal, and one action more that does nothing.
    import gymnasium
    import minigrid  # noqa: F401 - registers its environments

    other = gymnasium.make("MiniGrid-Empty-5x5-v0")
    other.reset(seed=0)
    same = emp.exact(emp.from_gymnasium(other), 3)
    alive = exact.nats[~np.asarray(world.terminal(exact.states))]  # MiniGrid lists no others
    np.testing.assert_allclose(sorted(alive), sorted(same.nats), atol=1e-9)


def test_xland_door_key_is_proved_and_enumerated():
    env, params = xland("MiniGrid-DoorKey-5x5")
    exact = emp.exact(emp.from_jax((env, params)), 3)
    slow = slow_xland(env, params.replace(max_steps=10**6), 3)
    np.testing.assert_allclose(sorted(exact.nats), sorted(slow.values()), atol=1e-9)


def test_navix_empty_is_proved_and_equals_xland():
    navix = package("navix")
    world = emp.from_jax(navix.make("Navix-Empty-5x5-v0"))
    assert world.deterministic
    exact = emp.exact(world, 3)
    same = emp.exact(emp.from_jax(xland("MiniGrid-Empty-5x5")), 3)
    np.testing.assert_allclose(sorted(exact.nats), sorted(same.nats), atol=1e-9)


def test_jumanji_maze_is_proved_and_counts_cells():
    package("jumanji")
    from jumanji.environments import Maze
    from jumanji.environments.routing.maze.generator import RandomGenerator

    env = Maze(generator=RandomGenerator(num_rows=5, num_cols=5))
    world = emp.from_jax(env)
    assert world.deterministic
    state, _ = env.reset(jax.random.key(0))
    step = jax.jit(env.step)
    target = (int(state.target_position.row), int(state.target_position.col))

    def name(state: Any) -> tuple[int, int]:
        return int(state.agent_position.row), int(state.agent_position.col)

    def absorbed(state: Any, action: int) -> Any:
        return state if name(state) == target else step(state, action)[0]

    slow = slow_values(absorbed, name, state, 4, 4)
    np.testing.assert_allclose(sorted(emp.exact(world, 4).nats), sorted(slow.values()), atol=1e-9)


def test_gymnax_breakout_and_cart_pole_are_proved_and_four_rooms_rightly_is_not():
    gymnax = package(GYMNAX)
    assert emp.from_jax(gymnax.make("CartPole-v1")).deterministic
    assert emp.from_jax(gymnax.make("Breakout-MinAtar")).deterministic
    rooms = emp.from_jax(gymnax.make("FourRooms-misc"))
    assert not rooms.deterministic
    with pytest.raises(ValueError, match=r"depends on the random key \(state.pos, what is seen\)"):
        emp.exact(rooms, 2)


def listed_four_rooms() -> Any:
    """Four rooms with outcomes by hand: with a chance of 4/9 one of the four moves is drawn at
    random in place of the chosen one, so that another one is made with 1/3."""
    env, params = package(GYMNAX).make("FourRooms-misc")
    start = env.reset_env(jax.random.key(0), params)[1]
    moves, walls = jnp.array([[-1, 0], [0, 1], [1, 0], [0, -1]]), jnp.asarray(env.env_map)

    def step(outcome: Any, state: Any, action: Any) -> Any:
        there = state.pos + moves[jnp.where(outcome == 4, action, outcome)]
        return state.replace(pos=jnp.where(walls[there[0], there[1]], there, state.pos))

    return emp.from_jax(
        step,
        start,
        4,
        lambda state: env.get_obs(state, params),
        lambda state: (state.pos == state.goal).all(),
        lambda state, action: jnp.array([1, 1, 1, 1, 5]) / 9,
    )


def test_four_rooms_by_the_package_happens_as_often_as_the_outcomes_listed_by_hand():
    rooms = emp.from_jax(package(GYMNAX).make("FourRooms-misc"))
    listed = listed_four_rooms()
    rng, n = np.random.default_rng(0), 6000
    states = listed.states()
    for cell in (0, 17, 60):
        here = jax.tree.map(lambda x, cell=cell: np.repeat(x[cell][None], n, 0), states)
        assert rooms.start._fields == states._fields
        for action in range(4):
            often = []
            for world in (rooms, listed):
                chosen = np.full(n, action)
                after = world.step(here, chosen, world.draw_outcome(here, chosen, rng))
                cells, counts = np.unique(np.asarray(after[0]), axis=0, return_counts=True)
                often.append({tuple(c.tolist()): k / n for c, k in zip(cells, counts, strict=True)})
            assert often[0].keys() == often[1].keys()
            for there, share in often[0].items():
                assert share == pytest.approx(often[1][there], abs=0.04)


def test_what_a_package_cannot_give_is_refused():
    gymnax = package(GYMNAX)
    with pytest.raises(ValueError, match="actions that are not numbered"):
        emp.from_jax(gymnax.make("Pendulum-v1"))
    with pytest.raises(ValueError, match="observe= and terminal= would be ignored"):
        emp.from_jax(gymnax.make("CartPole-v1"), observe=lambda s: s.x, terminal=lambda s: False)
    from xminigrid.wrappers import GymAutoResetWrapper

    env, params = xland("MiniGrid-Empty-5x5")
    with pytest.raises(ValueError, match="resets itself"):
        emp.from_jax((GymAutoResetWrapper(env), params))


def test_cart_pole_by_hand_equals_gymnasium_cell_for_cell():
    """States that lie in the same cell of a fine grid count as one: all 2^5 sequences from near
    the middle, by the world and by Gymnasium's own step."""
    import gymnasium

    world = emp.from_jax(package(GYMNAX).make("CartPole-v1"))
    env = gymnasium.make("CartPole-v1").unwrapped
    sequences = np.array(list(itertools.product(range(2), repeat=5)))
    start = np.array([0.01, -0.02, 0.03, 0.04])
    fields = world.start._fields
    names = ("state_x", "state_x_dot", "state_theta", "state_theta_dot")
    order = [next(i for i, f in enumerate(fields) if f.rsplit("_", 1)[0] == n) for n in names]
    parts: list[Any] = [None] * len(fields)
    for n, i in enumerate(order):
        parts[i] = np.full(32, start[n], np.float32)
    states = type(world.start)(*parts)
    for t in range(5):
        states = world.step(states, sequences[:, t], 0)
    ours = np.stack([np.asarray(states[i]) for i in order], 1)
    theirs = []
    for sequence in sequences:
        env.reset(seed=0)
        env.state = start
        for action in sequence:
            env.step(int(action))
        theirs.append(env.state)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    cells = [len(np.unique(np.round(x / 0.01), axis=0)) for x in (ours, np.array(theirs))]
    assert cells[0] == cells[1] > 5


@pytest.mark.slow
def test_xland_door_key_is_learned_on_the_device():
    world = emp.from_jax(xland("MiniGrid-DoorKey-6x6"))
    found = emp.compare(emp.train(world, 3).landscape(), emp.exact(world, 3))
    assert found.r2 > 0.97


@pytest.mark.slow
def test_four_rooms_is_learned_as_good_as_its_listed_outcomes():
    rooms, listed = emp.from_jax(package(GYMNAX).make("FourRooms-misc")), listed_four_rooms()
    exact = emp.exact(listed, 3)
    learned = emp.train(rooms, 3, updates=2000).landscape(states=exact.states)
    assert emp.compare(learned, dataclasses.replace(exact, world=rooms.name)).r2 > 0.9
