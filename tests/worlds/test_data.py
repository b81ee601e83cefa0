"""Worlds from logged transitions: what is counted, and what the interval promises."""

import numpy as np
import pytest

import empowerment as emp
from empowerment.worlds.memory import shrunk

ROOM = "######\n#a...#\n#.##.#\n#....#\n######"


def logged(world, count, seed=0):
    """Random transitions from everywhere: states, actions, next states and ends."""
    rng = np.random.default_rng(seed)
    states = rng.integers(world.size, size=count)
    actions = rng.integers(len(world.actions), size=count)
    after = world.step(states, actions, world.draw_outcome(states, actions, rng))
    return states, actions, after, world.terminal(after)


def table(slip):
    """A small map as a table, whose states are its places in order."""
    world = emp.make(ROOM, slip=slip)
    states = world.states()
    size, actions = len(states.agent), len(world.actions)
    dense = np.zeros((size, actions, size))
    cells = {int(cell): i for i, cell in enumerate(states.agent)}
    for a in range(actions):
        for c in range(world.branches):
            after = world.step(states, np.full(size, a), np.full(size, c))
            odds = np.asarray(world.probabilities(states, np.full(size, a)))[:, c]
            for i in range(size):
                dense[i, a, cells[int(after.agent[i])]] += odds[i]
    return emp.from_transitions(dense), emp.exact(world, 2)


def test_without_randomness_the_values_are_exact():
    world, truth = table(0.0)
    data = emp.from_data(*logged(world, 4000))
    land = emp.exact(data, 2, states=data.index(np.arange(world.size)[:, None]))
    np.testing.assert_allclose(land.nats, truth.nats, atol=1e-6)
    assert (land.upper - land.lower).max() < 1e-4
    assert not data.few().any()


def test_the_interval_holds_the_truth_and_narrows():
    world, truth = table(0.2)
    widths = []
    for count in (6_000, 60_000):
        data = emp.from_data(*logged(world, count))
        land = emp.exact(data, 2, states=data.index(np.arange(world.size)[:, None]))
        inside = (land.lower <= truth.nats) & (truth.nats <= land.upper)
        assert inside.mean() >= 0.9
        assert ((land.lower <= land.nats) & (land.nats <= land.upper)).all()
        widths.append((land.upper - land.lower).mean())
    assert 2 < widths[0] / widths[1] < 6, "about √10"


def test_plain_counting_is_further_off():
    world, truth = table(0.2)
    data = emp.from_data(*logged(world, 10_000))
    states = data.index(np.arange(world.size)[:, None])
    counted = data._table(data._counts / data.tried[..., None])
    plain = emp.exact(counted, 2, states=states, tolerance=1e-6).nats
    error = [np.abs(x - truth.nats).mean() for x in (emp.exact(data, 2, states=states).nats, plain)]
    assert error[0] < 0.7 * error[1]


def test_feedback_works_on_data_too():
    world, _ = table(0.2)
    data = emp.from_data(*logged(world, 60_000))
    states = data.index(np.arange(world.size)[:, None])
    land = emp.exact(data, 4, states=states, feedback=True)
    truth = emp.exact(world, 4, feedback=True).nats
    assert land.feedback
    assert ((land.lower <= truth) & (truth <= land.upper)).mean() >= 0.9


def test_probabilities_that_are_alike_are_pooled():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(100, [0.9, 0.1], size=(50, 4))
    error = [np.abs(x[..., 0] - 0.9).mean() for x in (shrunk(counts), counts / 100)]
    assert error[0] < 0.3 * error[1]
    np.testing.assert_allclose(shrunk(counts).sum(-1), 1.0)


def test_probabilities_that_differ_are_left_alone():
    counts = np.array([[[100, 900]], [[500, 500]], [[900, 100]]])
    np.testing.assert_allclose(shrunk(counts), counts / 1000, atol=0.01)
    certain = np.array([[[7, 0]]])
    assert shrunk(certain).tolist() == [[[1.0, 0.0]]]


def test_unseen_pairs_are_never_passed_over_in_silence():
    x, a, after = [[0], [0], [1]], [0, 1, 0], [[0], [1], [1]]
    with pytest.raises(ValueError, match="1 pairs of a state and an action were never tried"):
        emp.from_data(x, a, after)
    drop, stay = (emp.from_data(x, a, after, unseen=way) for way in ("drop", "stay"))
    assert drop.tried.tolist() == [[1, 1], [1, 0]]
    assert stay.tried.tolist() == [[1, 1], [1, 0]], "nothing that was made up counts"
    assert drop.few(2).tolist() == [True, True]
    assert stay.few(1).tolist() == [False, True]


def test_the_last_state_of_a_log_in_which_nothing_was_done_is_no_end():
    given = [0, 0], [0, 1], [1, 2]
    with pytest.raises(ValueError, match="4 pairs of a state and an action were never tried"):
        emp.from_data(*given)
    assert emp.from_data(*given, unseen="drop").few(1).tolist() == [False, True, True]
    assert not emp.from_data(*given, [True, True]).few(1).any()


def test_actions_that_are_left_out_are_no_choice_in_the_bootstrap():
    """A ring where one action was tried at most places: nothing can be chosen there."""
    rng = np.random.default_rng(0)
    place = rng.integers(8, size=400)
    action = np.where(place == 0, rng.integers(2, size=400), 0)
    after = (place + (rng.random(400) < 0.7)) % 8
    data = emp.from_data(place, action, after, unseen="drop")
    land = emp.exact(data, 1, data.index(np.arange(1, 8)[:, None]))
    assert land.upper.max() < 1e-4


@pytest.mark.parametrize("offset", [0, 10])
def test_zero_is_one_state_whatever_its_sign(offset):
    data = emp.from_data([0.0 + offset, 0.0], [0, 1], [0.0, -0.0], unseen="drop")
    assert data.size == (1 if offset == 0 else 2)
    assert data.index([[-0.0]]) == data.index([[0.0]])


def test_pictures_may_be_grey():
    frames = np.zeros((3, 8, 6), np.uint8)
    frames[1] = 9
    data = emp.from_data(frames[[0, 1, 0, 1]], [0, 0, 1, 1], frames[[0, 1, 1, 0]])
    assert data.observation_shape == (8, 6, 1)
    assert emp.exact(data, 1).nats == pytest.approx(np.log(2), abs=1e-3)
    est = emp.train(data, 1, updates=2, batch=8, hidden=8, features=8, progress=False)
    assert np.isfinite(est.landscape().nats).all()


def test_ends_of_episodes_absorb():
    world = emp.from_data([[0], [0]], [0, 1], [[1], [0]], [True, False])
    end = world.index([[1]])
    assert world.terminal(end).all()
    assert emp.exact(world, 3, states=end).nats.tolist() == [0.0]


def test_a_file_of_arrays(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, x=np.zeros((2, 1)), a=np.array([0, 1]), x_next=np.array([[0.0], [1.0]]))
    assert emp.from_data(path, unseen="stay").size == 2
    np.savez(path, x=np.zeros((2, 1)))
    with pytest.raises(ValueError, match="has no a and no x_next"):
        emp.from_data(path)
    path.write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match=r"log.npz.*(no .npz file|damaged)"):
        emp.from_data(path)
    with pytest.raises(ValueError, match="check the path"):
        emp.from_data(tmp_path / "none.npz")
    np.savez(path, x=np.array([{}]), a=np.zeros(1, int), x_next=np.zeros(1))
    with pytest.raises(ValueError, match=r"no \.npz file of arrays"):
        emp.from_data(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": [[0.0]]}, "the arrays have lengths"),
        ({"x": [[np.nan], [0.0]]}, "NaN, infinity"),
        ({"x": [2**27, 2**27 + 1]}, "different numbers that are one in single precision"),
        ({"x": [[1e39], [0.0]]}, "more than single precision"),
        ({"x_next": [["a"], ["b"]]}, "observations of numbers"),
        ({"x_next": [[1j], [0j]]}, "observations of numbers"),
        ({"x": 3.0}, "single number"),
        ({"x_next": [[0.0, 1.0], [0.0, 1.0]]}, "of one shape"),
        ({"a": [0.5, 1.0]}, "one whole number from 0"),
        ({"a": [-1, 0]}, "one whole number from 0"),
        ({"a": [0, 5000]}, "below 1024"),
        ({"a": None}, "give x, a and x_next"),
        ({"unseen": "maybe"}, "give 'drop' or 'stay'"),
        ({"terminated": [0.1, 0.2]}, "one boolean for each"),
    ],
)
def test_bad_data_are_refused(change, words):
    given = {"x": [[0.0], [0.0]], "a": [0, 1], "x_next": [[0.0], [0.0]]} | change
    with pytest.raises(ValueError, match=words):
        emp.from_data(given.pop("x"), given.pop("a"), given.pop("x_next"), **given)


def test_observations_that_hardly_repeat_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="observations differ"):
        emp.from_data(rng.normal(size=(500, 2)), np.zeros(500, int), rng.normal(size=(500, 2)))


def test_data_can_be_learned_on(tmp_path):
    world, _ = table(0.2)
    data = emp.from_data(*logged(world, 20_000))
    settings = {"updates": 4, "batch": 16, "hidden": 8, "features": 6, "progress": False}
    est = emp.train(data, 2, out=tmp_path / "run", **settings)
    assert len(est.landscape()) == world.size
    assert len(emp.load(tmp_path / "run").landscape()) == world.size
