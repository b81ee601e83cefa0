import inspect
import sys
from importlib.resources import files
from itertools import product

import numpy as np
import pytest

import empowerment as emp
from empowerment import counting
from empowerment.capacity import capacity
from empowerment.channel import channel
from empowerment.exact import _merging_error, ends, has_exact, optimal_source
from empowerment.reach import explore
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.world import World, identify, leaves, take

K = 5


def read_map(name):
    return (files("empowerment.worlds") / "maps" / f"{name}.txt").read_text().split()


def slow_static_landscape(name, horizon):
    """ln of the number of cells reached, straight from the text of the map."""
    rows = read_map(name)
    picture = np.full((len(rows), len(rows[0])), np.nan)
    for r, c in product(range(len(rows)), range(len(rows[0]))):
        if rows[r][c] == "#":
            continue
        reached = {(r, c)}
        for _ in range(horizon):
            moves = (
                (y + dy, x + dx)
                for y, x in reached
                for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0))
            )
            reached = reached | {(y, x) for y, x in moves if rows[y][x] != "#"}
        picture[r, c] = np.log(len(reached))
    return picture


def slow_count(world, state, horizon):
    """Distinct end states, one step of one state at a time."""

    def name(s):
        return b"".join(np.asarray(x).tobytes() for x in leaves(s))

    reached = {name(state): state}
    for _ in range(horizon):
        after = (
            world.step(s, np.int64(a), np.int64(0))
            for s in reached.values()
            for a in range(len(world.actions))
        )
        reached = {name(s): s for s in after}
    return len(reached)


def highest(land):
    return {tuple(p) for p in land.positions[land.nats > land.nats.max() - 1e-9].tolist()}


@pytest.mark.parametrize("name", ["open-room", "cross-room", "two-rooms"])
@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_static_worlds_against_a_slow_search(name, horizon):
    land = emp.exact(emp.make(name), horizon)
    np.testing.assert_allclose(
        land.grid(), slow_static_landscape(name, horizon), rtol=0, atol=1e-12
    )
    np.testing.assert_array_equal(land.lower, land.nats)
    np.testing.assert_array_equal(land.upper, land.nats)


@pytest.mark.parametrize("name", ["box-movable", "key-door", "lava-corridor", "lava-maze"])
def test_dynamic_worlds_against_a_slow_search(name):
    world = emp.make(name)
    states = world.states()
    some = take(states, np.arange(0, len(states.agent), 11))
    land = emp.exact(world, 2, some)
    slow = [np.log(slow_count(world, take(some, i), 2)) for i in range(len(land))]
    np.testing.assert_allclose(land.nats, slow, atol=1e-12)


def test_open_room_is_highest_in_the_centre():
    best = highest(emp.exact(emp.make("open-room"), K))
    assert {(9, 9), (9, 10), (10, 9), (10, 10)} <= best
    assert all(6 <= r <= 13 and 6 <= c <= 13 for r, c in best)


def test_cross_room_is_highest_at_the_centre():
    assert highest(emp.exact(emp.make("cross-room"), K)) == {(9, 9), (9, 10), (10, 9), (10, 10)}


def test_two_rooms_is_highest_near_the_doors():
    best = highest(emp.exact(emp.make("two-rooms"), K))
    doors = [
        (r, c) for r, row in enumerate(read_map("two-rooms")) for c in (9, 10) if row[c] != "#"
    ]
    assert doors
    assert all(min(abs(r - y) + abs(c - x) for y, x in doors) < K for r, c in best)
    assert {c < 10 for _, c in best} == {True, False}  # in both rooms


def around(land, cell, distance):
    """Values at the cells in a square around one, without it."""
    offsets = np.abs(land.positions - cell).max(axis=1)
    return land.nats[(offsets > 0) & (offsets <= distance)]


def test_box_rooms():
    empty, fixed, movable, row = (
        emp.exact(emp.make(f"box-{kind}"), K) for kind in ("empty", "fixed", "movable", "row")
    )
    box = (9, 9)
    middle = np.nanmax(empty.grid())
    assert around(empty, box, 2).min() == middle  # uniform away from the walls
    assert around(fixed, box, 1).max() < middle  # low around the fixed box
    assert fixed.grid()[9, 10] < fixed.grid()[6, 6]
    assert highest(movable) == {(8, 9), (10, 9), (9, 8), (9, 10)}  # beside the movable box
    assert around(movable, box, 1).min() > np.nanmax(empty.grid())
    boxes = [
        (r, c) for r, line in enumerate(read_map("box-row")) for c, s in enumerate(line) if s == "b"
    ]
    assert all(min(abs(r - y) + abs(c - x) for y, x in boxes) == 1 for r, c in highest(row))
    assert row.nats.max() > movable.nats.max()


def test_key_door_before_and_after_the_key_is_taken():
    world = emp.make("key-door")
    assert highest(emp.exact(world, K)) == {(2, 1)}  # at the key
    states = world.states()
    after = states._replace(carrying=np.ones_like(states.carrying), keys=np.zeros_like(states.keys))
    land = emp.exact(world, K, after)
    assert highest(land) == {(3, 6)}  # beside the door
    assert np.nanargmax(land.grid()[:, :5]) == 3 * 5 + 4  # on the key's side too


def test_bitsets_and_sparse_sets_agree(monkeypatch):
    table = explore(emp.make("two-rooms"), emp.make("two-rooms").states(), 9)
    assert table.closed
    results = []
    for cheaper in (True, False):
        monkeypatch.setattr(counting, "_bitsets_are_cheaper", lambda *_, answer=cheaper: answer)
        results.append(counting.count_ends(table, 9))
    monkeypatch.setattr(counting, "BLOCK", 500)
    results.append(counting.count_ends(table, 9))
    monkeypatch.setattr(counting, "_bitsets_are_cheaper", lambda *_: True)
    results.append(counting.count_ends(table, 9))
    for counts in results[1:]:
        np.testing.assert_array_equal(counts, results[0])


def test_look_alikes_change_no_count(monkeypatch):
    world = emp.make("two-rooms")
    expected = emp.exact(world, 4).nats
    monkeypatch.setattr(
        counting, "look_alikes", lambda table, horizon: np.unique(table.starts, return_inverse=True)
    )
    np.testing.assert_array_equal(emp.exact(world, 4).nats, expected)


def test_long_horizons_reach_everything():
    land = emp.exact(emp.make("two-rooms"), 100)
    np.testing.assert_allclose(land.nats, np.log(292))


def test_a_world_that_never_rests():
    """Parity: in a ring without an idle action only every second state can be reached."""
    ring = np.stack([np.roll(np.arange(10), 1), np.roll(np.arange(10), -1)], axis=1)
    for horizon, count in ((1, 2), (2, 3), (4, 5), (50, 5), (51, 5)):
        np.testing.assert_allclose(
            emp.exact(emp.from_transitions(ring), horizon).nats, np.log(count)
        )


def test_noisy_landscape_is_bracketed_and_right():
    world = GridWorld(Map.parse("#####\n#a..#\n#.#.#\n#####", "small"), slip=0.2)
    land = emp.exact(world, 3, tolerance=1e-10)
    assert (land.upper - land.lower).max() < 1.1e-10
    for i in range(len(land)):
        built, _ = channel(world, take(land.states, i), 3)
        assert land.nats[i] == pytest.approx(capacity(built.matrix).nats, abs=2e-9)
    assert (land.nats < emp.exact(GridWorld(world.map), 3).nats).all()


def test_slip_one_leaves_nothing_to_choose():
    assert emp.exact(emp.make("open-room", slip=1.0), 2).upper.max() < 1e-8


def test_a_users_states():
    world = emp.make("open-room")
    whole = emp.exact(world, 3)
    order = np.array([200, 3, 3])
    some = emp.exact(world, 3, take(whole.states, order))
    np.testing.assert_array_equal(some.nats, whole.nats[order])
    one = emp.exact(world, 3, world.start)
    assert one.nats == pytest.approx(np.log(25))
    dead = emp.make("lava-maze")
    state = dead.start._replace(
        alive=np.bool_(False), agent=np.int32(0), lava=np.zeros_like(dead.start.lava)
    )
    assert emp.exact(dead, 3, state).nats == 0


def test_states_may_be_jax_arrays():
    import jax
    import jax.numpy as jnp

    world = emp.make("key-door")
    land = emp.exact(world, 2, jax.tree.map(jnp.asarray, world.states()))
    np.testing.assert_array_equal(land.nats, emp.exact(world, 2).nats)
    assert isinstance(land.states.agent, np.ndarray)


def test_appendix_a_on_the_tree():
    world = emp.make("tree")
    nodes, paths = ends(world, world.start, K)
    np.testing.assert_array_equal(paths, [1, 5, 10, 10, 5, 1])
    source = optimal_source(world, world.start, K)
    assert source.probabilities.sum() == pytest.approx(1)
    np.testing.assert_allclose(source.end_distribution(), 1 / 6)
    np.testing.assert_array_equal(source.end_states, nodes)
    np.testing.assert_allclose(source.probabilities, 1 / (6 * paths[source.ends]))
    assert emp.exact(world, K, world.start).nats == pytest.approx(np.log(6))
    uniform = np.bincount(source.ends) / len(source.ends)
    assert uniform.max() / uniform.min() == 10


def test_the_optimal_source_attains_empowerment_in_a_grid():
    world = emp.make("key-door")
    source = optimal_source(world, world.start, 3)
    state = take(world.place([world.start.agent]), np.zeros(len(source.sequences), int))
    for actions in source.sequences.T:
        state = world.step(state, actions, np.int64(0))
    np.testing.assert_array_equal(state.agent, source.end_states.agent[source.ends])
    entropy = -(source.end_distribution() * np.log(source.end_distribution())).sum()
    assert entropy == pytest.approx(emp.exact(world, 3, world.start).nats[0])
    _, counts = ends(world, world.start, 3)
    assert counts.sum() == 6**3


def test_many_paths_are_counted_as_floats():
    _, counts = ends(emp.make("two-rooms"), emp.make("two-rooms").start, 40)
    assert counts.sum() == pytest.approx(5.0**40)


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True, "5", None])
def test_bad_horizons(horizon):
    with pytest.raises(
        ValueError, match="is not a number of actions; give a whole number, 1 or more"
    ):
        inspect.unwrap(emp.exact)(
            emp.make("open-room"), horizon
        )  # without the suite's own checks of types


@pytest.mark.parametrize("slip", [0.0, 0.1])
def test_a_bad_tolerance_is_refused_before_any_work(slip):
    with pytest.raises(ValueError, match=r"tolerance is 0\.0.*at least 1e-11"):
        emp.exact(emp.make("open-room", slip=slip), 5, tolerance=0.0)


def test_states_that_the_world_does_not_have():
    world = emp.make("key-door")
    start = world.start
    bad = {
        "number 0: agent=0": start._replace(agent=np.int32(0)),
        "agent=-5": start._replace(agent=np.int32(-5)),
        "agent=10000": start._replace(agent=np.int32(10_000)),
        "agent=104": start._replace(agent=np.int32(8 * 13)),  # one row below the map
        "agent=-2147483648": start._replace(agent=np.int64(-(2**31))),
        "agent=2147483647": start._replace(agent=np.int64(2**31 - 1)),
        "is a tuple": tuple(start)[:7],
        "agent=44": start._replace(agent=np.int32(3 * 13 + 5)),  # the closed door
        "number 1": world.place([14, 0]),
        "shape": start._replace(keys=np.ones((1, 2), bool)),
        "type float64": start._replace(agent=np.float64(14.0)),
        "outside of int32": start._replace(agent=np.array([2**40])),
        "is empty": world.place([]),
        "parts of lengths": world.place([14, 15])._replace(alive=np.ones(3, bool)),
        "is a ndarray": np.array([18]),
    }
    for message, states in bad.items():
        with pytest.raises(ValueError, match=message):
            emp.exact(world, 2, states)
    assert emp.exact(world, 2, start._replace(agent=np.int32(44), doors=np.ones(1, bool))).nats > 0
    with pytest.raises(ValueError, match="states is a tuple"):
        emp.exact(emp.make("tree"), 2, (np.array([0]), np.array([1])))


def test_a_state_inside_a_box():
    world = emp.make("box-movable")
    with pytest.raises(ValueError, match="does not have, number 0: agent=189"):
        emp.exact(world, 2, world.start._replace(agent=np.int32(9 * 20 + 9)))


def test_a_number_that_the_table_does_not_have():
    world = emp.make("tree")
    for states in ([21], [-1], np.int64(99)):
        with pytest.raises(ValueError, match="'tree' does not have"):
            emp.exact(world, 2, np.asarray(states))


def test_sources_are_for_deterministic_worlds_of_moderate_horizon():
    world = emp.make("open-room", slip=0.1)
    with pytest.raises(ValueError, match="is random"):
        optimal_source(world, world.start, 2)
    with pytest.raises(ValueError, match="is random"):
        ends(world, world.start, 2)
    with pytest.raises(ValueError, match="too many to list"):
        optimal_source(emp.make("open-room"), emp.make("open-room").start, 20)


def test_progress_goes_to_standard_error_and_changes_nothing(capsys):
    world = emp.make("two-rooms", slip=0.1)
    np.testing.assert_array_equal(emp.exact(world, 2, progress=True).nats, emp.exact(world, 2).nats)
    assert capsys.readouterr().out == ""


def test_the_price_of_merging_by_hand():
    assert _merging_error(0.5, 3) == pytest.approx(np.log(12)), (
        "2 (h(1/2) + 1/2 ln 3) = 2 ln 2 + ln 3"
    )
    assert _merging_error(0.0, 3) == 0


def test_counts_are_whole_numbers_below_two_to_the_63():
    world = emp.from_transitions(np.array([[0, 0]]))  # both actions stay
    for horizon, kind in ((62, np.int64), (63, np.float64)):
        _, counts = ends(world, world.start, horizon)
        assert counts.dtype == kind
        assert counts.tolist() == [2**horizon]


def test_the_largest_source_is_listed(monkeypatch):
    world = emp.make("tree")
    monkeypatch.setattr(sys.modules["empowerment.exact"], "LARGEST_SOURCE", 8)
    assert len(optimal_source(world, world.start, 3).sequences) == 8
    with pytest.raises(ValueError, match="too many to list"):
        optimal_source(world, world.start, 4)


def test_point_mass_of_bounded_power():
    world = emp.make("point-mass", noise=0.5)
    assert emp.exact(world, 1, world.start).nats == pytest.approx(
        [0.5 * np.log(5)]
    )  # gain 1 / 0.5²
    with pytest.raises(ValueError, match="NaN or infinite"):
        emp.exact(world, 1, world.start._replace(velocity=np.array([np.nan], np.float32)))
    with pytest.raises(ValueError, match="continuous actions"):
        emp.exact(emp.make("point-mass", power=None), 1)


def test_states_at_the_edge_of_a_map_without_walls():
    world = GridWorld(Map.parse("a.", "two"))
    assert emp.exact(world, 1, world.place([0, 1])).nats == pytest.approx([np.log(2)] * 2)
    with pytest.raises(ValueError, match="number 0: agent=2"):
        emp.exact(world, 1, world.start._replace(agent=np.int32(2)))


class Ring(World):
    name, actions, outcomes, start = "ring", ("on", "back"), 1, np.int32(0)

    def step(self, state, action, outcome):
        return (state + np.where(action == 0, 1, 2) + 0 * outcome).astype(np.int32) % np.int32(3)

    def observe(self, state):
        return np.asarray(state)[..., None].astype(np.float32)

    def states(self):
        return np.arange(3, dtype=np.int32)


def test_minus_zero_is_zero():
    assert len(set(identify(np.array([0.0, -0.0, 1.0])).tolist())) == 2
    assert len(set(identify((np.array([[0.0] * 9, [-0.0] * 9]), np.zeros(2, bool))).tolist())) == 1


def test_a_world_without_layout():
    assert emp.exact(Ring(), 1, np.array([2, 0])).nats == pytest.approx([np.log(2)] * 2)


@pytest.mark.parametrize("slip", [0.0, 0.1])
def test_a_bar_is_drawn_only_if_asked_for(monkeypatch, slip):
    bars = []

    class Bar:
        def __init__(self, **options):
            self.options, self.done = options, 0
            bars.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, done):
            self.done += done

    monkeypatch.setattr("tqdm.tqdm", Bar)
    world = emp.make("two-rooms", slip=slip)
    emp.exact(world, 2)
    assert not bars
    emp.exact(world, 2, progress=True)
    found, solved = bars
    assert found.options.pop("total") is None
    assert found.done == len(world.states().agent)  # one step from all places leads to these again
    assert solved.done == solved.options.pop("total") > 1
    assert found.options == solved.options == {"unit": "state", "delay": 1.0, "leave": False}


@pytest.mark.parametrize(
    ("world", "known"),
    [
        (emp.make("two-rooms", slip=0.1), True),
        (emp.make("point-mass"), True),
        (emp.make("point-mass", power=None), False),
        (emp.make("pendulum"), False),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_worlds_with_exact_values(world, known):
    assert has_exact(world) == known
    if not known:
        with pytest.raises(ValueError, match="continuous actions"):
            emp.exact(world, 2)
