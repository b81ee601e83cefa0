import copy
from itertools import product

import gymnasium
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation, NormalizeObservation
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Ball, Box, Key
from minigrid.minigrid_env import MiniGridEnv
from minigrid.wrappers import (
    FullyObsWrapper,
    ImgObsWrapper,
    NoDeath,
    RGBImgObsWrapper,
    StochasticActionWrapper,
)

import empowerment as emp
from empowerment.exact import ends
from empowerment.worlds.world import take


def slow_channel(env, state, horizon):
    """Rows of all sequences from the table itself; an episode that is over stays where it ended."""
    rows = []
    for sequence in product(range(env.action_space.n), repeat=horizon):
        distribution = {(state, False): 1.0}
        for action in sequence:
            new = {}
            for (s, over), p in distribution.items():
                outcomes = [(1.0, s, 0, True)] if over else env.unwrapped.P[s][action]
                for q, t, _, done in outcomes:
                    new[int(t), bool(done)] = new.get((int(t), bool(done)), 0.0) + p * q
            distribution = new
        row = np.zeros(env.observation_space.n)
        for (s, _), p in distribution.items():
            row[s] += p
        rows.append(row)
    return np.array(rows)


def slow_capacity(rows, iterations=4000):
    """Plain Blahut-Arimoto with its bracket."""
    rows = np.unique(rows[:, rows.any(0)].round(15), axis=0)
    source = np.full(len(rows), 1 / len(rows))
    for _ in range(iterations):
        with np.errstate(divide="ignore", invalid="ignore"):
            divergence = np.where(rows > 0, rows * np.log(rows / (source @ rows)), 0).sum(1)
        lower, upper = np.log(source @ np.exp(divergence)), divergence.max()
        if upper - lower < 1e-7:
            break
        source = source * np.exp(divergence)
        source /= source.sum()
    return lower, upper


@pytest.mark.parametrize("horizon", [1, 2])
def test_slippery_frozen_lake_against_a_slow_enumeration(horizon):
    env = gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=True)
    world = emp.from_gymnasium(env)
    land = emp.exact(world, horizon)
    holes = env.unwrapped.desc.ravel() == b"H"
    assert (land.upper[holes] < 1e-9).all()  # terminal states absorb
    for state in world.states():
        terminal = env.unwrapped.desc.ravel()[state] in b"HG"
        lower, upper = (0, 0) if terminal else slow_capacity(slow_channel(env, int(state), horizon))
        assert lower - 1e-9 <= land.upper[state]
        assert land.lower[state] <= upper + 1e-9
        assert upper - lower < 1e-3
    assert land.grid().shape == (8, 8)


def test_a_dry_lake_is_deterministic():
    world = emp.from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=False))
    assert world.deterministic
    assert world.actions == ("left", "down", "right", "up")
    assert emp.exact(world, 1).grid()[0, 0] == pytest.approx(np.log(3))
    assert world.terminal(np.array([0, 5, 15])).tolist() == [False, True, True]


def test_cliff_and_taxi():
    cliff = emp.from_gymnasium(gymnasium.make("CliffWalking-v1"))
    grid = emp.exact(cliff, 2).grid()
    assert np.isnan(
        grid[3, 1:-1]
    ).all()  # nobody stands on the cliff: falling leads back to the start
    assert grid[3, -1] == 0
    taxi = emp.from_gymnasium(gymnasium.make("Taxi-v4"))
    assert len(taxi.states()) == 404
    assert emp.exact(taxi, 1).grid().shape == (5, 5)


def test_chance_outside_of_the_table_is_refused():
    with pytest.raises(ValueError, match="fickle_passenger"):
        emp.from_gymnasium(gymnasium.make("Taxi-v4", fickle_passenger=True))


def test_other_tables_than_gymnasium_s_own():
    class Walk(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)
        P = {s: {a: [(1.0, (s + a) % 3, 0.0, False)] for a in range(2)} for s in range(3)}  # noqa: RUF012

    assert np.allclose(emp.exact(emp.from_gymnasium(Walk()), 1).nats, np.log(2))
    Walk.P = {s: list(row.values()) for s, row in Walk.P.items()}
    with pytest.raises(ValueError, match="from_transitions"):
        emp.from_gymnasium(Walk())


def fingerprint(env, over):
    env = env.unwrapped
    held = env.carrying.encode() if env.carrying else None
    return (
        tuple(map(int, env.agent_pos)),
        int(env.agent_dir),
        held,
        env.grid.encode().tobytes(),
        over,
    )


def slow_minigrid_ends(env, horizon):
    """Distinct ends by copying the whole environment at every branch of the tree of sequences."""
    if horizon == 0:
        return {fingerprint(env, False)}
    found = set()
    for action in range(env.action_space.n):
        twin = copy.deepcopy(env)
        over = twin.step(action)[2]
        found |= {fingerprint(twin, True)} if over else slow_minigrid_ends(twin, horizon - 1)
    return found


def test_door_key_against_a_slow_enumeration():
    env = gymnasium.make("MiniGrid-DoorKey-5x5-v0").unwrapped
    env.reset(seed=3)
    before = fingerprint(env, False)
    world = emp.from_gymnasium(env)
    land = emp.exact(world, 3)
    assert len(land) == 4 * np.isfinite(land.grid()).sum()
    for i, (row, column) in enumerate(land.positions):
        twin = copy.deepcopy(env)
        twin.agent_pos, twin.agent_dir = (int(column), int(row)), i % 4
        assert land.nats[i] == pytest.approx(np.log(len(slow_minigrid_ends(twin, 3)))), (
            row,
            column,
            i % 4,
        )
    assert fingerprint(env, False) == before
    assert env.step_count == 0


def test_reaching_the_goal_ends_it():
    env = gymnasium.make("MiniGrid-Empty-5x5-v0")
    env.reset(seed=0)
    world = emp.from_gymnasium(env)
    state = world.start
    for action in (2, 2, 1, 2, 2):
        assert not world.terminal(state)
        state = world.step(state, action, 0)
    assert world.terminal(state)
    assert emp.exact(world, 3, state).nats == 0


def test_the_step_counter_is_no_part_of_a_state():
    env = gymnasium.make("MiniGrid-Empty-5x5-v0", max_steps=2)
    env.reset(seed=0)
    world = emp.from_gymnasium(env)
    again = world.step(world.step(world.step(world.start, 0, 0), 1, 0), 6, 0)
    np.testing.assert_array_equal(again, world.start)
    assert emp.exact(world, 6).nats.max() > emp.exact(world, 2).nats.max()


def test_the_object_to_fetch_ends_the_episode():
    """The environment compares with `is`, so the object must keep its identity through states."""
    env = gymnasium.make("MiniGrid-UnlockPickup-v0")
    env.reset(seed=0)
    inner = env.unwrapped
    x, y = inner.obj.cur_pos
    inner.agent_pos, inner.agent_dir = (x - 1, y), 0
    if inner.grid.get(x - 1, y) is not None:
        inner.agent_pos, inner.agent_dir = (x, y + 1), 3
    world = emp.from_gymnasium(env)
    assert world.terminal(world.step(world.start, 3, 0))


class Boxes(MiniGridEnv):
    """The agent between two boxes that look the same, one of them with a key inside; two balls
    behind."""

    def __init__(self, contents=(None, "yellow")):
        self.contents = contents
        super().__init__(MissionSpace(lambda: "open"), width=5, height=5, max_steps=50)

    def _gen_grid(self, width, height):
        self.grid = Grid(width, height)
        self.grid.wall_rect(0, 0, width, height)
        for x, colour in zip((1, 3), self.contents, strict=True):
            self.grid.set(x, 2, Box("red", Key(colour) if colour else None))
            self.grid.set(x, 3, Ball("blue"))
        self.agent_pos, self.agent_dir = (2, 2), 0
        self.mission = "open"


def boxes(*contents):
    env = Boxes(contents)
    env.reset(seed=0)
    return emp.from_gymnasium(env)


def test_what_boxes_contain_is_part_of_the_state():
    world = boxes(None, "yellow")
    cells = world.start[:25].reshape(5, 5)
    assert cells[2, 1] != cells[2, 3]
    assert cells[3, 1] == cells[3, 3]  # balls that look the same are the same
    toggled = world.step(world.start, 5, 0)
    taken = world.step(toggled, 3, 0)
    assert taken[-2] > 0  # carries the key
    held = world.step(world.start, 3, 0)
    assert held[-2] not in (0, taken[-2])  # carries the box


def test_a_state_with_unknown_objects():
    world = boxes(None, "yellow")
    state = world.start.copy()
    state[6] = 99
    with pytest.raises(ValueError, match="object of kind 99"):
        emp.exact(world, 1, state)
    state = world.start.copy()
    state[-5:-3] = 0
    with pytest.raises(ValueError, match="does not have"):
        emp.exact(world, 1, state)


def test_swapping_two_objects_that_look_the_same_changes_nothing():
    same, different = boxes("yellow", "yellow"), boxes(None, "yellow")
    assert (same.start[:25] > 0).sum() == (different.start[:25] > 0).sum()
    assert len(np.unique(same.start[:25])) < len(np.unique(different.start[:25]))


def test_no_two_states_look_the_same():
    world = boxes(None, "yellow")
    states, _ = ends(world, world.start, 4)
    pictures = world.observe(states)
    assert pictures.shape[1:] == (5, 5, 3)
    assert pictures.dtype == np.uint8
    assert len(np.unique(pictures.reshape(len(pictures), -1), axis=0)) == len(states)
    np.testing.assert_array_equal(world.observe(take(states, 0)), pictures[0])


VIEWS = {
    "cells": lambda env: ImgObsWrapper(FullyObsWrapper(env)),
    "pixels": lambda env: ImgObsWrapper(RGBImgObsWrapper(env, tile_size=4)),
    "vector": lambda env: FlattenObservation(ImgObsWrapper(FullyObsWrapper(env))),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_agents_see_what_the_wrapped_environment_shows(view):
    env, rng = view(gymnasium.make("MiniGrid-DoorKey-5x5-v0")), np.random.default_rng(0)
    seen, _ = env.reset(seed=0)
    world = emp.from_gymnasium(env)
    state = world.start
    for action in rng.integers(6, size=200):
        assert np.array_equal(world.observe(state), seen)
        assert np.array_equal(world.observe(np.stack([world.start, state]))[1], seen)
        seen, *_, terminated, truncated, _ = env.step(action)
        state = world.step(state, action, 0)
        if terminated or truncated:
            break


def test_looking_changes_nothing_of_the_user_s():
    env = NormalizeObservation(VIEWS["vector"](gymnasium.make("MiniGrid-Empty-5x5-v0")))
    env.reset(seed=0)
    before = env.obs_rms.mean.copy()
    world = emp.from_gymnasium(env)
    world.observe(world.states())
    assert np.array_equal(env.obs_rms.mean, before)


def test_pictures_that_are_too_large_say_what_to_wrap_but_are_no_matter_for_exact():
    env = ImgObsWrapper(RGBImgObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"), tile_size=32))
    env.reset(seed=0)
    world = emp.from_gymnasium(env)
    assert emp.exact(world, 1).nats.max() > 0
    with pytest.raises(ValueError, match="ResizeObservation"):
        emp.train(world, 1)


def test_random_and_remembering_environments_are_refused():
    for name, reason in (
        ("MiniGrid-Dynamic-Obstacles-5x5-v0", "random"),
        ("BabyAI-GoToRedBall-v0", "instruction"),
    ):
        env = gymnasium.make(name)
        env.reset(seed=0)
        with pytest.raises(ValueError, match=reason):
            emp.from_gymnasium(env)


def test_nobody_starts_beyond_the_walls():
    env = gymnasium.make("MiniGrid-MultiRoom-N2-S4-v0")
    env.reset(seed=0)
    world = emp.from_gymnasium(env)
    land = emp.exact(world, 1)  # a step outside would leave the grid
    rows, columns = land.positions.T
    assert len(land) < 4 * (~world.layout.walls).sum()
    assert (rows.min(), columns.min()) > (0, 0)


class Own(Boxes):
    """An environment of one's own: with a switch, a counter or a ball that it asks for its
    place."""

    def __init__(self, kind, width=5):
        self.kind, self.lit, self.rules = kind, False, self
        super().__init__()
        self.width = width

    def _gen_grid(self, width, height):
        super()._gen_grid(width, height)
        self.ball = self.grid.get(1, 3)
        self.mission = self.kind

    def step(self, action):
        seen, reward, terminated, truncated, info = super().step(action)
        if self.kind == "counter":
            self.lit = not self.lit
        if self.kind == "painter":
            self.ball.color = "green"
        if self.kind == "place":
            terminated = tuple(self.ball.cur_pos) != (1, 3)
        if self.kind == "rules":
            terminated = self.rules.agent_dir == 1
        return seen, reward, terminated, truncated, info


def own(kind, **options):
    env = Own(kind, **options)
    env.reset(seed=0)
    return emp.from_gymnasium(env)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("counter", r"state of its own beside the grid \(lit\)"),
        ("painter", "that changes while stepping"),
    ],
)
def test_environments_that_keep_more_than_the_grid_are_refused(kind, words):
    with pytest.raises(ValueError, match=words):
        own(kind)


def test_what_environments_refer_to_follows_the_state():
    world = own("place")
    beside = world.start.copy()
    beside[-5:-2] = 1, 2, 1  # above the ball, looking down; the box is where the agent is
    beside[2 * 5 + 1] = 0
    taken = world.step(beside, 3, 0)
    assert world.terminal(taken)  # the ball is in nobody's cell any more
    assert not world.terminal(world.step(world.start, 0, 0))  # and here it is again where it was
    turning = own("rules")
    assert [bool(turning.terminal(turning.step(turning.start, a, 0))) for a in (0, 1)] == [
        False,
        True,
    ]


def test_grids_beyond_eight_bits_are_refused():
    with pytest.raises(ValueError, match="a grid of 300 x 5 cells"):
        own("wide", width=300)


class HeavyBall(Ball):
    def can_pickup(self):
        return False


def test_objects_of_different_classes_are_different():
    env = Boxes((None, None))
    env.reset(seed=0)
    env.grid.set(3, 3, HeavyBall("blue"))
    cells = emp.from_gymnasium(env).start[:25].reshape(5, 5)
    assert cells[3, 1] != cells[3, 3]


class Sticky(gymnasium.ObservationWrapper):
    def observation(self, observation):
        return observation

    def step(self, action):
        self.env.step(action)
        return super().step(action)


class Fading(gymnasium.ObservationWrapper):
    """Shows the same picture darker every time."""

    def observation(self, observation):
        self.shown = getattr(self, "shown", 0) + 1
        return observation // np.uint8(self.shown)


def test_wrappers_that_remember_or_step_are_refused():
    with pytest.raises(ValueError, match="wrapper Sticky may change what actions do"):
        emp.from_gymnasium(Sticky(gymnasium.make("FrozenLake-v1")))
    env = Fading(ImgObsWrapper(FullyObsWrapper(gymnasium.make("MiniGrid-Empty-5x5-v0"))))
    env.reset(seed=0)
    world = emp.from_gymnasium(env)
    with pytest.raises(ValueError, match="shows the same state in different ways"):
        world.observe(world.states())


def table(*rows):
    env = gymnasium.make("FrozenLake-v1").unwrapped
    env.P = {s: dict(enumerate(row)) for s, row in enumerate(rows)}
    env.initial_state_distrib = np.eye(len(rows))[0]
    return env


def test_tables_in_which_the_way_decides_whether_it_ends_are_refused():
    go, stop = [(1.0, 1, 0.0, False)], [(1.0, 0, 0.0, True)]
    with pytest.raises(ValueError, match="one and the same state ends an episode or does not"):
        emp.from_gymnasium(table([go, stop], [[(1.0, 0, 0.0, False)], go]))
    with pytest.raises(ValueError, match="one and the same state ends an episode or does not"):
        emp.from_gymnasium(table([[(0.1, 1, 0.0, True), (0.9, 1, 0.0, False)]], [go]))
    with pytest.raises(ValueError, match="states it does not have"):
        emp.from_gymnasium(table([[(1.0, 5, 0.0, False)]], [go]))


def test_a_minigrid_must_be_reset_first():
    with pytest.raises(ValueError, match="reset"):
        emp.from_gymnasium(gymnasium.make("MiniGrid-Empty-5x5-v0"))


def test_wrappers_that_change_dynamics_are_refused():
    env = gymnasium.make("MiniGrid-LavaGapS5-v0")
    env.reset(seed=0)
    assert emp.exact(emp.from_gymnasium(ImgObsWrapper(env)), 1).nats.max() > 0
    for wrapper in (StochasticActionWrapper(env), NoDeath(env, no_death_types=("lava",))):
        with pytest.raises(ValueError, match="may change what actions do"):
            emp.from_gymnasium(wrapper)


def test_other_environments_can_be_learned_on_but_not_enumerated():
    with pytest.raises(ValueError, match="'CartPole-v1' can be learned on but not enumerated"):
        emp.exact(emp.from_gymnasium(gymnasium.make("CartPole-v1")), 2)
