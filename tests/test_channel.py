from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import empowerment as emp
from empowerment import channel as channel_module
from empowerment import reach
from empowerment.capacity import capacity
from empowerment.channel import channel, channels, rows_of
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.world import identify, leaves, take

SMALL = "#####\n#a..#\n#.#.#\n#####"


def slow_rows(world, state, horizon):
    """p(s'|a, s) of every sequence as a dictionary, one outcome at a time."""

    def after(distribution, action):
        new = {}
        for key, (s, p) in distribution.items():
            odds = np.asarray(world.probabilities(s, np.int64(action)))
            for outcome in np.flatnonzero(odds):
                t = world.step(s, np.int64(action), np.int64(outcome))
                name = b"".join(np.asarray(x).tobytes() for x in leaves(t))
                new[name] = (t, new.get(name, (t, 0.0))[1] + p * odds[outcome])
            del key
        return new

    rows = {}
    for sequence in product(range(len(world.actions)), repeat=horizon):
        distribution = {b"": (state, 1.0)}
        for action in sequence:
            distribution = after(distribution, action)
        rows[sequence] = {name: p for name, (_, p) in distribution.items()}
    return rows


def names(states):
    n = len(leaves(states)[0])
    return [b"".join(np.asarray(x)[i].tobytes() for x in leaves(states)) for i in range(n)]


def check_against_slow(world, state, horizon):
    built, end_states = channel(world, state, horizon)
    slow = slow_rows(world, state, horizon)
    columns = names(end_states)
    assert set(columns) == {name for row in slow.values() for name in row}
    dense = np.array([[row.get(name, 0.0) for name in columns] for row in slow.values()])
    index = {sequence: i for i, sequence in enumerate(slow)}
    chosen = [index[tuple(sequence.tolist())] for sequence in built.sequences]
    np.testing.assert_allclose(built.matrix, dense[chosen], atol=1e-13)
    distances = np.abs(dense[:, None] - built.matrix[None]).max(-1)
    np.testing.assert_array_equal(
        np.bincount(distances.argmin(1), minlength=len(chosen)), built.multiplicities
    )
    assert distances.min(1).max() < 1e-13
    assert built.slack < 1e-14
    assert capacity(built.matrix).nats == pytest.approx(capacity(dense).nats, abs=2e-9)
    return built


def test_slippery_grid_against_all_sequences():
    world = GridWorld(Map.parse(SMALL, "small"), slip=0.3)
    built = check_against_slow(world, world.start, 3)
    assert len(built.matrix) < 5**3  # some rows are equal


def test_deterministic_world_has_one_row_for_each_end():
    world = emp.make("key-door")
    built = check_against_slow(world, world.start, 2)
    np.testing.assert_array_equal(built.matrix.sum(0), 1)
    assert built.multiplicities.sum() == 6**2


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_random_tables_against_all_sequences(seed, horizon):
    rng = np.random.default_rng(seed)
    size, actions = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    table = rng.dirichlet(np.full(size, 0.5), (size, actions)) * (
        rng.random((size, actions, size)) < 0.6
    )
    table[..., 0] += 0.1
    world = emp.from_transitions(table / table.sum(-1, keepdims=True))
    check_against_slow(world, np.int32(0), horizon)


def test_the_order_of_starts_and_the_size_of_blocks_change_nothing(monkeypatch):
    world = GridWorld(Map.parse(SMALL, "small"), slip=0.3)
    table = reach.explore(world, world.states(), 3)
    whole = list(channels(table, 3))
    monkeypatch.setattr(channel_module, "BLOCK", 10)
    monkeypatch.setattr(reach, "BLOCK", 2)
    parts = list(channels(reach.explore(world, world.states(), 3), 3))
    assert len(whole) == len(parts) == 5
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a.matrix, b.matrix)
        np.testing.assert_array_equal(a.sequences, b.sequences)


def test_exploring_numbers_states_in_the_order_of_their_steps():
    world = emp.make("open-room")
    start = world.place([21])
    table = reach.explore(world, start, 2, keep=True)
    assert table.size == 6
    assert len(table.successors) == 3
    assert not table.closed
    np.testing.assert_array_equal(identify(table.states), table.labels)
    after = world.step(take(table.states, np.s_[:3, None]), np.arange(5), np.int64(0))
    np.testing.assert_array_equal(table.states.agent[table.successors[:, :, 0]], after.agent)


def test_wide_states_are_numbered_too():
    world = emp.make("lava-maze")
    table = reach.explore(world, world.states(), 2, keep=True)
    assert table.labels is None
    keys = identify(table.states)
    assert len(np.unique(keys)) == len(keys) == table.size


def test_impossible_outcomes_are_no_states():
    world = emp.make("tree")
    world.outcomes = 2
    world.successors = np.repeat(world.successors, 2, axis=2)
    world.successors[..., 1] = 7
    world.odds = np.stack(
        [np.ones(world.successors.shape[:2]), np.zeros(world.successors.shape[:2])], -1
    )
    assert reach.explore(world, np.array([0], np.int32), 2).size == 6
    built, _ = channel(world, np.int32(0), 2)
    np.testing.assert_array_equal(built.matrix.sum(0), [1, 1, 1])


def test_look_alikes_have_equal_channels():
    world = emp.make("two-rooms", slip=0.2)
    table = reach.explore(world, world.states(), 2)
    starts, kinds = reach.look_alikes(table, 2)
    assert len(starts) < len(kinds) // 4
    built = list(channels(table, 2))
    for i, kind in enumerate(kinds):
        np.testing.assert_array_equal(built[i].matrix, built[starts[kind]].matrix)


def test_look_alikes_ask_for_the_same_odds():
    table = np.zeros((4, 1, 4))
    for s, p in enumerate((0.5, 0.5, 0.4, 0.5)):
        table[s, 0, s], table[s, 0, (s + 1) % 4] = 1 - p, p
    world = emp.from_transitions(table)
    _, kinds = reach.look_alikes(reach.explore(world, world.states(), 1), 1)
    assert kinds[0] == kinds[1]
    assert kinds[2] != kinds[0]


def test_many_kinds_that_differ_in_few_bits():
    """Odds like 1/2 and 1/4 differ only in the first bits of their numbers."""
    odds = np.repeat(np.exp2(-np.arange(1, 600.0)), 2).view(np.uint64)
    np.testing.assert_array_equal(
        reach._kinds(np.stack([odds, np.ones_like(odds)])), np.repeat(np.arange(1, 1198, 2), 2)
    )


def test_rows_with_equal_sums_are_kept_apart(monkeypatch):
    """Even if the random sums failed, nothing would be merged that differs."""

    class Zeros:
        def integers(self, *_, size, dtype):
            return np.zeros(size, dtype)

    world = GridWorld(Map.parse(SMALL, "small"), slip=0.3)
    expected = emp.exact(world, 2).nats
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Zeros())
    np.testing.assert_allclose(emp.exact(world, 2).nats, expected, atol=2e-9)


def test_too_large_to_enumerate(monkeypatch):
    monkeypatch.setattr(reach, "LARGEST_TABLE", 10_000)
    with pytest.raises(
        ValueError, match=r"'lava-maze' is too large to enumerate: \d+ states.*emp.train"
    ):
        emp.exact(emp.make("lava-maze"), 3)
    monkeypatch.undo()
    monkeypatch.setattr(channel_module, "LARGEST_CHANNEL", 1000)
    with pytest.raises(
        ValueError, match=r"too large to enumerate: \d+ different sequences.*smaller horizon"
    ):
        emp.exact(emp.make("two-rooms", slip=0.1), 4)
    monkeypatch.undo()
    monkeypatch.setattr(channel_module, "LARGEST_MATRIX", 120)
    with pytest.raises(
        ValueError, match=r"too large to solve: 15 different sequences, 13 ends; give a smaller"
    ):
        emp.exact(
            emp.make("open-room", slip=0.1),
            2,
            take(emp.make("open-room").states(), slice(150, 151)),
        )


def test_dense_tables_are_no_larger_than_their_states(monkeypatch):
    """Every state leads to every other: many outcomes, of which there are no more than states."""
    rng = np.random.default_rng(0)
    world = emp.from_transitions(rng.dirichlet(np.ones(12), (12, 3)))
    expected = emp.exact(world, 3).nats
    monkeypatch.setattr(
        channel_module, "LARGEST_CHANNEL", 27 * 12
    )  # entries of the last step of one start
    np.testing.assert_allclose(emp.exact(world, 3).nats, expected, atol=2e-9)


def test_every_state_within_reach():
    world = emp.make("key-door")
    table = reach.closure(world, world.states(), 200)
    assert table.closed
    assert table.size == reach.explore(world, world.states(), 200).size == 145
    assert not reach.closure(world, world.states(), 100).closed


def test_rows_of_some_sequences_only():
    table = np.zeros((4, 3, 4))
    table[:, 0] = table[:, 1] = np.eye(4)
    table[0, 1] = [0, 0.25, 0.75, 0]
    table[:, 2, 3] = 1
    world = emp.from_transitions(table)
    noisy, last = [0, 0.25, 0.75, 0], [0, 0, 0, 1]
    rows = rows_of(world, world.start, np.array([[1, 0], [2, 0], [0, 0], [0, 1], [1, 2]]))
    np.testing.assert_array_equal(rows, [noisy, last, [1, 0, 0, 0], noisy, last])
    rows = rows_of(world, world.start, np.array([[1, 0], [0, 1], [1, 1]]))
    np.testing.assert_array_equal(rows, [[0.25, 0.75]] * 3, "without empty columns")


def test_a_channel_is_as_large_as_its_next_step(monkeypatch):
    world = emp.make("tree")
    monkeypatch.setattr(channel_module, "BLOCK", 1)
    monkeypatch.setattr(channel_module, "LARGEST_CHANNEL", 2)
    assert len(channel(world, world.start, 1)[0].matrix) == 2, "one entry, two actions"
    with pytest.raises(
        ValueError, match="2 different sequences with 2 entries, 1 steps before the end"
    ):
        channel(world, world.start, 2)


def test_starts_too_large_together_are_composed_apart(monkeypatch):
    world = emp.make("tree")
    monkeypatch.setattr(channel_module, "BLOCK", 2)
    monkeypatch.setattr(channel_module, "LARGEST_CHANNEL", 2)
    built = list(channels(reach.explore(world, np.array([0, 1, 2], np.int32), 1), 1))
    assert [one.ends.tolist() for one in built] == [[1, 2], [3, 4], [3, 5]]


def test_merging_adds_the_distance_of_the_rows_to_the_slack():
    d = 2.0**-48  # 3.6e-15: all entries round to the same multiple of UNIT
    block = channel_module._Rows(
        data=np.array([0.5 + d, 0.5 - d, 0.5 - d, 0.5 + d]),
        columns=np.array([0, 1, 0, 1]),
        pointers=np.array([0, 2, 4]),
        owners=np.zeros(2, np.int64),
        sequences=np.array([[0], [1]]),
        multiplicities=np.array([1.0, 2.0]),
        slack=1e-15,
    )
    merged = channel_module._merged(block)
    assert merged.data.tolist() == [0.5 + d, 0.5 - d]
    assert merged.multiplicities.tolist() == [3]
    assert merged.slack == 1e-15 + 2 * d
