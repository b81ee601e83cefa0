import itertools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from empowerment import make, worlds
from empowerment.worlds.grid import GridState, GridWorld, Map
from empowerment.worlds.world import concatenate, identify, leaves, take

sys.path.insert(0, str(Path(__file__).parent))
import slow_grid

DISCRETE = [name for name in worlds() if make(name).continuous is None]


@st.composite
def maps(draw):
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(2, 6))
    cells = draw(
        st.lists(st.sampled_from("......#bbkdl"), min_size=rows * columns, max_size=rows * columns)
    )
    cells[draw(st.integers(0, rows * columns - 1))] = "a"
    return "\n".join("".join(cells[r * columns : (r + 1) * columns]) for r in range(rows))


def as_slow(world, state, example):
    """An engine state in the words of the slow implementation."""
    columns = world.layout.shape[1]

    def cells(numbers):
        return frozenset((int(n) // columns, int(n) % columns) for n in numbers)

    if not state.alive:
        return "dead"
    return slow_grid.replace(
        example,
        agent=next(iter(cells([state.agent]))),
        keys=cells(world._key_cells[state.keys]),
        closed=cells(world._door_cells[~state.doors]),
        boxes=cells(np.flatnonzero(state.boxes)),
        bricks=cells(np.flatnonzero(state.bricks)),
        lava=cells(np.flatnonzero(state.lava)),
        carrying=bool(state.carrying),
    )


@given(maps(), st.lists(st.integers(0, 9), max_size=25), st.booleans())
def test_engine_is_the_slow_implementation(text, actions, bricks):
    world = GridWorld(Map.parse(text, "random"), bricks=bricks)
    fast, slow = world.start, slow_grid.read(text)
    for action in actions:
        action %= len(world.actions)
        fast = world.step(fast, np.int32(action), np.int32(0))
        slow = slow_grid.step(slow, world.actions[action])
        assert as_slow(world, fast, slow) == (slow if slow.alive else "dead")


@given(maps(), st.integers(0, 2**32 - 1))
def test_a_batch_is_its_members(text, seed):
    world = GridWorld(Map.parse(text, "random"), slip=0.5, bricks=True)
    rng = np.random.default_rng(seed)
    states, n = world.states(), len(world.states().agent)
    actions, outcomes = rng.integers(len(world.actions), size=n), rng.integers(5, size=n)
    batch = world.step(states, actions, outcomes)
    for i in range(n):
        one = world.step(take(states, i), actions[i], outcomes[i])
        assert all(np.array_equal(x[i], y) for x, y in zip(batch, one, strict=True))


@pytest.mark.parametrize("name", DISCRETE)
def test_numpy_and_jax_agree(name):
    world = make(name)
    step, rng = jax.jit(world.step), np.random.default_rng(0)
    here = take(world.states(), rng.integers(len(leaves(world.states())[0]), size=40))
    there = jax.tree.map(jnp.asarray, here)
    for _ in range(25):
        action, outcome = rng.integers(len(world.actions), size=40), np.zeros(40, np.int32)
        here, there = (
            world.step(here, action, outcome),
            step(there, jnp.asarray(action), jnp.asarray(outcome)),
        )
        for x, y in zip(leaves(here), leaves(there), strict=True):
            assert x.dtype == y.dtype
            assert np.array_equal(x, y)
        assert np.array_equal(world.observe(here), jax.jit(world.observe)(there))


@pytest.mark.parametrize("name", DISCRETE)
def test_different_states_look_different(name):
    world, rng = make(name), np.random.default_rng(1)
    batch, seen = world.states(), []
    for _ in range(20):
        seen.append(batch)
        n = len(leaves(batch)[0])
        batch = world.step(batch, rng.integers(len(world.actions), size=n), np.zeros(n, np.int32))
    states = concatenate(seen)
    looks = identify(np.asarray(world.observe(states)))
    keys = identify(states)
    assert len(np.unique(keys)) == len(np.unique(looks))
    assert len(np.unique(keys)) >= len(leaves(world.states())[0])


def test_everything_that_can_share_a_cell_is_told_apart():
    world = GridWorld(Map.parse("akdbl", "crowd"), bricks=True)
    first = np.arange(5) == 1
    pictures = set()
    bits = list(itertools.product([False, True], repeat=5))
    for key, box, lava, agent, carrying in bits:
        state = world.start._replace(
            agent=np.int32(1 if agent else 0),
            keys=np.array([key]),
            boxes=first & box,
            lava=first & lava,
            carrying=np.bool_(carrying),
        )
        pictures.add(world.observe(state).tobytes())
    assert len(pictures) == len(bits)


def walk(world, *names):
    state = world.start
    for name in names:
        state = world.step(state, np.int32(world.actions.index(name)), np.int32(0))
    return state


def grid(text, **options):
    return GridWorld(Map.parse(text, "test"), **options)


def test_a_door_needs_its_key_and_stays_open():
    world = grid("#####\n#akd.\n#####")
    assert walk(world, "right", "right").agent == 7, "closed without the key"
    opened = walk(world, "right", "pick up", "right")
    assert opened.agent == 8
    assert opened.doors.all()
    assert not opened.keys.any()
    assert walk(world, "right", "pick up", "right", "left", "right").agent == 8


def test_boxes_move_only_into_free_cells():
    assert np.flatnonzero(walk(grid("ab.."), "right").boxes).tolist() == [2]
    assert np.flatnonzero(walk(grid("ab.."), *["right"] * 5).boxes).tolist() == [3], (
        "stops at the edge"
    )
    assert np.flatnonzero(walk(grid("abb."), "right").boxes).tolist() == [1, 2]
    assert np.flatnonzero(walk(grid("abk."), "right").boxes).tolist() == [2], (
        "keys do not stop boxes"
    )
    assert np.flatnonzero(walk(grid("abd."), "right").boxes).tolist() == [1], "doors do"


def test_lava_flows_and_death_absorbs():
    world = grid("a..l", bricks=True)
    assert np.flatnonzero(walk(world, "stay").lava).tolist() == [2, 3]
    dead = walk(world, "stay", "stay", "stay")
    assert not dead.alive
    otherwise = walk(world, "right", "brick left", "right", "stay")
    assert all(np.array_equal(x, y) for x, y in zip(dead, otherwise, strict=True)), (
        "one state, whatever the map"
    )
    assert walk(world, "brick right", "stay", "stay", "stay").alive, "a brick stops it"
    assert not walk(grid("a.l"), "right").alive, "walking into it is death"
    again = world.step(dead, np.int32(1), np.int32(0))
    assert all(np.array_equal(x, y) for x, y in zip(dead, again, strict=True))


def test_actions_come_in_the_promised_order():
    assert make("key-door", bricks=True).actions == (
        *("up", "down", "left", "right", "stay", "pick up"),
        *("brick up", "brick down", "brick left", "brick right"),
    )
    assert len(make("lava-maze").actions) == 9


def test_slip_replaces_the_action_by_one_of_four_moves():
    world = make("open-room", slip=0.2)
    assert np.allclose(world.probabilities(world.start, np.int32(0)), [0.8, 0.05, 0.05, 0.05, 0.05])
    states = world.step(world.place([210]), np.int32(4), np.arange(5))
    assert sorted(states.agent.tolist()) == [190, 209, 210, 211, 230]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#a#\n##", ["ragged", "line 2"]),
        ("#a?", ["'?'", "line 1, column 3"]),
        ("...", ["no agent start"]),
        ("a.\n.a", ["2 agents", "line 2, column 2"]),
        ("a.a\n.a.", ["3 agents", "line 1, column 3"]),
        ("", ["empty"]),
    ],
)
def test_bad_maps_are_named(text, words):
    with pytest.raises(ValueError) as error:
        Map.parse(text, "mine")
    assert all(word in str(error.value) for word in ["'mine'", *words])


@pytest.mark.parametrize("slip", [-0.1, 1.5, float("nan")])
def test_slip_is_a_probability(slip):
    with pytest.raises(ValueError, match="slip="):
        make("open-room", slip=slip)


def test_state_keys_are_injective_for_small_and_large_states():
    for name in ("key-door", "box-row"):
        states = make(name).states()
        assert len(np.unique(identify(states))) == len(states.agent)
    assert isinstance(make("key-door").start, GridState)


@pytest.mark.parametrize(
    "parts",
    [
        (np.array([-1, 1, 255, -256], np.int32), np.array([True, False, True, False])),
        (np.array([0.0, 0.5, -0.5, 2.0], np.float32), np.array([True, False, True, False])),
        (np.array([3, 3, 2, 2], np.uint8), np.eye(4, 9, dtype=bool)),
        (np.array([3, 3, 2, 2], np.int64), np.eye(4, 9, dtype=bool)),
        (np.array([7, 7, 7, 7], np.int64), np.eye(4, dtype=bool)),
    ],
)
def test_keys_are_equal_where_whole_states_are(parts):
    """Short and long keys, with few bits and with many."""
    twice = tuple(np.concatenate([part, part]) for part in parts)
    keys = identify(twice)
    same = keys[:, None] == keys[None]
    np.testing.assert_array_equal(same, np.tile(np.eye(4, dtype=bool), (2, 2)))
    bits = sum(8 * p.itemsize if p.dtype != bool else 8 * -(-p[0].size // 8) for p in parts)
    assert (keys.dtype == np.uint64) == (bits <= 64)


def test_pictures_by_hand():
    """Three parts of a thing's colour over one part of what is beneath."""
    world, cells = grid("a#kkdbl", bricks=True), np.arange(7)
    wall, floor, key = [60, 60, 60], [255, 255, 255], [243, 234, 113]
    agent, door, box, lava = [63, 149, 197], [63, 182, 150], [176, 147, 102], [223, 134, 63]
    assert world.observe(world.start)[0].tolist() == [agent, wall, key, key, door, box, lava]
    state = world.start._replace(
        agent=np.int32(2),
        carrying=np.bool_(True),
        doors=np.ones(1, bool),
        boxes=cells == 3,
        bricks=cells == 0,
        lava=np.zeros(7, bool),
    )
    carrying, box, brick, opened = (
        [213, 149, 153],
        [173, 141, 66],
        [159, 159, 183],
        [206, 232, 217],
    )  # two over keys
    assert world.observe(state)[0].tolist() == [brick, wall, carrying, box, opened, floor, floor]
    assert (world.observe(state._replace(alive=np.bool_(False))) == [213, 94, 0]).all()


def test_worlds_have_nothing_that_is_not_asked_for():
    world = grid("a.")
    assert world.actions == ("up", "down", "left", "right", "stay")
    assert world.start.boxes.size == world.start.bricks.size == world.start.lava.size == 0
    assert world.probabilities(world.start, np.int32(0)).tolist() == [1.0]


def test_a_single_state_has_a_place_and_death_is_the_end():
    assert make("key-door").locate(make("key-door").start).tolist() == [5, 3]
    world = grid("a..l")
    assert not world.terminal(world.start)
    assert world.terminal(walk(world, "stay", "stay", "stay"))
