import jax
import numpy as np
import pytest

from empowerment import exact, from_transitions, make
from empowerment.worlds.world import pick_outcome


def test_probabilities_and_successors_describe_the_same_world():
    successors = np.array([[0, 1], [1, 0], [2, 2]])
    dense = np.eye(3)[successors]
    one, two = from_transitions(successors), from_transitions(dense)
    for world in (one, two):
        assert world.deterministic
        assert world.step(np.arange(3), np.array([1, 1, 0]), np.zeros(3, int)).tolist() == [1, 0, 2]


@pytest.mark.parametrize("array", [np.asarray, jax.numpy.asarray])
def test_a_number_draws_an_outcome(array):
    """Levels 0.3 and 1.0; the third outcome, of probability zero, is never drawn."""
    odds = array(np.array([[0.3, 0.7, 0.0]] * 4, np.float32))
    drawn = jax.jit(pick_outcome)(odds, array(np.array([0.0, 0.29, 0.31, 1 - 2**-24], np.float32)))
    assert np.asarray(drawn).tolist() == [0, 0, 1, 1]
    assert np.asarray(pick_outcome(np.asarray(odds)[0], np.float32(0.5))).tolist() == 1


def test_chance_visits_every_outcome_with_its_probability():
    dense = np.array([[[0.25, 0.75, 0.0]], [[0.0, 0.0, 1.0]], [[0.5, 0.25, 0.25]]])
    world = from_transitions(dense)
    rebuilt = np.zeros_like(dense)
    for s in range(3):
        for c in range(world.outcomes):
            to = world.step(np.int32(s), np.int32(0), np.int32(c))
            rebuilt[s, 0, to] += world.probabilities(np.int32(s), np.int32(0))[c]
    assert np.allclose(rebuilt, dense)


def test_tree_paths_meet():
    world = make("tree", depth=2)
    up_down = world.step(world.step(world.start, 0, 0), 1, 0)
    down_up = world.step(world.step(world.start, 1, 0), 0, 0)
    assert up_down == down_up
    assert world.size == 6
    assert len(np.unique(world.locate(world.states()), axis=0)) == 6


@pytest.mark.parametrize(
    "table",
    [
        np.zeros((2, 2, 3)),
        np.zeros((0, 2), int),
        np.array([[2, 0], [0, 1]]),
        np.full((2, 1, 2), 0.4),
        np.array([[[1.5, -0.5]], [[0.0, 1.0]]]),
        np.full((1, 1, 1), np.nan),
        np.zeros(4),
    ],
)
def test_bad_tables_are_refused(table):
    with pytest.raises(ValueError, match="transitions"):
        from_transitions(table)


def test_probabilities_may_be_rounded_as_their_type_rounds():
    table = np.random.default_rng(0).dirichlet(np.ones(3), (3, 2))
    single = from_transitions(table.astype(np.float32))
    assert np.allclose(exact(single, 2).nats, exact(from_transitions(table), 2).nats, atol=1e-5)
    assert single.odds.sum(-1) == pytest.approx(1, abs=1e-15)
    with pytest.raises(ValueError, match="not a distribution"):
        from_transitions(1.01 * table)
    with pytest.raises(ValueError, match=r"for a single channel use emp\.capacity"):
        from_transitions(table[0])
