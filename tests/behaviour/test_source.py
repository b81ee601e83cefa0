import numpy as np

import empowerment as emp
from empowerment.behaviour import FromSource, Random, exact_source, exact_value, run_episodes
from empowerment.exact import ends
from empowerment.worlds.grid import GridWorld, Map
from empowerment.worlds.world import identify, take


def play(world, state, sequence):
    for action in sequence:
        state = world.step(state, np.int64(action), np.int64(0))
    return state


def test_the_optimal_source_visits_all_ends_evenly():
    world = GridWorld(Map.parse("#####\n#a..#\n#.#.#\n#####", "room"))
    draw, rng = exact_source(world, 3), np.random.default_rng(0)
    reached, _ = ends(world, world.start, 3)
    names = identify(reached).tolist()
    last = [play(world, world.start, draw(world.start, rng)) for _ in range(700)]
    counts = np.bincount(
        [names.index(identify(take(s, None))[0]) for s in last], minlength=len(names)
    )
    np.testing.assert_allclose(counts / 700, 1 / len(names), atol=0.05)


def test_the_source_of_a_random_world_is_that_of_its_capacity():
    # Action 0 decides between two states with certainty, 2 and 3 between them only by chance: never
    # drawn.
    certain, other, coin = [0, 1, 0], [0, 0, 1], [0, 0.5, 0.5]
    world = emp.from_transitions(np.array([[certain, other, coin]] * 3))
    draw, rng = exact_source(world, 1), np.random.default_rng(0)
    drawn = np.array([draw(np.int32(0), rng)[0] for _ in range(200)])
    assert set(drawn) == {0, 1}
    assert abs((drawn == 0).mean() - 0.5) < 0.1


def test_sequences_are_played_without_looking():
    world = emp.make("open-room")
    asked = []

    def draw(state, rng):
        asked.append(int(state.agent))
        return np.array([0, 1, 2, 3])

    episodes = run_episodes(
        world, FromSource(world, exact_value(world, 1), draw), take(world.states(), [50]), 10
    )
    assert len(asked) == 3
    np.testing.assert_array_equal(episodes[0].actions, [0, 1, 2, 3] * 2 + [0, 1])
    assert episodes[0].expected is None


def test_the_source_explores_more_than_random_play():
    world = emp.make("two-rooms")
    value, starts = exact_value(world, 4), take(world.states(), np.arange(0, 292, 40))

    def visited(behaviour):
        return np.mean(
            [len(np.unique(e.states.agent)) for e in run_episodes(world, behaviour, starts, 120)]
        )

    assert visited(FromSource(world, value, exact_source(world, 4))) > 1.2 * visited(
        Random(world, value)
    )
