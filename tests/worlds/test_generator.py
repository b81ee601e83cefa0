import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import label

import empowerment as emp
from empowerment.behaviour import Greedy, exact_value, plan, run_episodes
from empowerment.worlds.generator import KINDS, generate, generate_world
from empowerment.worlds.world import take

SEEDS = st.integers(0, 2**32 - 1)
SMALLEST = 6  # pixels that the two convolutions need


def regions(cells, blocked):
    return label(~np.isin(cells, list(blocked)))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
def test_maps_are_walled_and_their_seed_decides_them(kind, seed):
    cells = generate(kind, seed).cells
    np.testing.assert_array_equal(cells, generate(kind, seed).cells)
    assert min(cells.shape) >= SMALLEST
    edge = np.concatenate([cells[0], cells[-1], cells[:, 0], cells[:, -1]])
    assert set(edge) <= {"#", "l"}
    assert (cells == "a").sum() == 1


@pytest.mark.parametrize("kind", ["rooms", "boxes"])
@given(seed=SEEDS)
def test_every_floor_cell_can_be_reached(kind, seed):
    cells = generate(kind, seed).cells
    assert cells.shape == (20, 20)
    assert regions(cells, "#b")[1] == 1


@given(SEEDS)
def test_boxes_stand_free(seed):
    cells = generate("boxes", seed).cells
    assert 1 <= (cells == "b").sum() <= 4
    for r, c in np.argwhere(cells == "b"):
        near = cells[r - 1 : r + 2, c - 1 : c + 2].ravel()
        assert set(np.delete(near, 4)) <= {".", "a"}


@given(SEEDS)
def test_the_door_parts_the_key_and_the_agent_from_the_other_room(seed):
    cells = generate("key-door", seed).cells
    labels, count = regions(cells, "#d")
    assert count == 2
    assert (cells == "k").sum() == (cells == "d").sum() == 1
    assert labels[cells == "k"] == labels[cells == "a"]
    assert regions(cells, "#")[1] == 1


@pytest.mark.parametrize("kind", ["lava-corridor", "lava-maze"])
@given(seed=SEEDS)
def test_lava_starts_outside_and_reaches_everything(kind, seed):
    cells = generate(kind, seed).cells
    assert (cells == "l").sum() >= 1
    assert regions(cells, "#l")[1] == regions(cells, "#")[1] == 1


def test_different_seeds_give_different_maps():
    for kind in KINDS:
        assert len({generate(kind, seed).cells.tobytes() for seed in range(30)}) > 10


@pytest.mark.parametrize("seed", range(4))
def test_generated_keys_and_doors_ask_for_the_same_behaviour_as_the_built_in_ones(seed):
    world = generate_world("key-door", seed)
    cells, states = world.map.cells, world.states()
    labels, _ = regions(cells, "#d")
    room = labels[tuple(world.locate(states).T)] == labels[cells == "k"]
    starts, value = take(states, room), exact_value(world, 5)
    key, door = (np.argwhere(cells == symbol)[0] for symbol in "kd")
    for episode in run_episodes(world, Greedy(world, value), starts, 30):
        assert (episode.path[-1] == key).all()
        assert not episode.states.carrying[-1]
    for episode in run_episodes(world, plan(world, value, 0.95), starts, 60):
        assert abs(episode.path[-1] - door).sum() == 1
        assert episode.states.carrying[-1]


@pytest.mark.parametrize("kind", ["lava-corridor", "lava-maze"])
@pytest.mark.parametrize("seed", range(3))
def test_greedy_survives_generated_lava_from_nearly_everywhere(kind, seed):
    world = generate_world(kind, seed)
    episodes = run_episodes(world, Greedy(world, exact_value(world, 5)), world.states(), 60)
    assert np.mean([e.alive for e in episodes]) >= 0.9


def test_worlds_of_lava_have_bricks_and_take_options():
    assert "brick up" in generate_world("lava-maze", 0).actions
    assert "brick up" not in generate_world("rooms", 0).actions
    assert generate_world("rooms", 0, slip=0.1).outcomes == 5
    assert emp.exact(generate_world("rooms", 1), 2).nats.min() > 0


def test_unknown_kinds_get_a_hint():
    with pytest.raises(ValueError, match="did you mean 'rooms'"):
        generate("room", 0)
