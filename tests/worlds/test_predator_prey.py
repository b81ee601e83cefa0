import builtins
import sys

import gymnasium
import numpy as np
import pytest

from empowerment import make
from empowerment.behaviour import Greedy, Random, run_episodes
from empowerment.behaviour.behaviour import candidates
from empowerment.variational.host import StreamCollector
from empowerment.worlds.copies import Copies
from empowerment.worlds.predator_prey import INERTIA, RADIUS, ROOM, PredatorPrey, at_rest

WORLD = make("predator-prey")


def push(agent, predator, force, steps=1, outcome=0.0):
    state = at_rest(np.array(agent, float), np.array(predator, float))
    for _ in range(steps):
        state = WORLD.step(state, np.array(force, float), np.full(4, outcome))
    return state


def test_a_pushed_sphere_rolls_without_slipping_up_to_its_highest_speed():
    state = push([-1, 1], [1, -1], [1, 0], steps=3)
    speed, spin = state.agent[2], state.agent[5] / INERTIA
    assert 0.9 < speed < 1.0
    assert spin * RADIUS == pytest.approx(speed, rel=0.03)


def test_the_predator_comes_straight_and_is_slower():
    state = push([1.2, 1.2], [-1, -1], [0, 0], steps=3)
    assert state.predator[2] == pytest.approx(state.predator[3], rel=1e-3)
    assert 0.65 < np.hypot(*state.predator[2:4]) < 0.75


def test_walls_hold():
    state = push([1.3, 0], [-1.3, 0], [1, 0], steps=8)
    assert state.agent[0] < ROOM + 0.05
    assert abs(state.agent[2]) < 0.05


def test_a_caught_agent_is_put_back_at_rest_at_a_random_place():
    near = at_rest(np.tile([0.21, 0.0], (200, 1)), np.zeros((200, 2)))
    rng = np.random.default_rng(0)
    outcome = WORLD.draw_outcome(near, np.zeros((200, 2)), rng)
    outcome[:, :2] = 0
    after = WORLD.step(near, np.zeros((200, 2)), outcome)
    assert after.caught.all()
    assert not after.agent[:, 2:].any()
    assert (np.abs(after.agent[:, :2]) <= ROOM).all()
    assert after.agent[:, :2].std() > 0.5
    again = WORLD.step(after, np.zeros((200, 2)), np.zeros((200, 4)))
    assert again.caught.mean() < 0.1


def test_noise_pushes_as_a_force_does():
    far = ([1.0, 1.0], [-1.2, -1.2])
    pushed = push(*far, [0.25, 0.25])
    noisy = push(*far, [0, 0], outcome=1.0)
    assert np.allclose(pushed.agent, noisy.agent, atol=1e-5)


def test_one_state_and_batches_of_any_shape_agree():
    states = WORLD.scatter(6, np.random.default_rng(1))
    forces, noise = (
        np.random.default_rng(2).uniform(-1, 1, (6, 2)),
        np.random.default_rng(3).normal(size=(6, 4)),
    )
    batch = WORLD.step(states, forces, noise)
    shaped = WORLD.step(
        type(states)(*(x.reshape(2, 3, *x.shape[1:]) for x in states)),
        forces.reshape(2, 3, 2),
        noise.reshape(2, 3, 4),
    )
    one = WORLD.step(type(states)(*(x[4] for x in states)), forces[4], noise[4])
    for whole, parts, alone in zip(batch, shaped, one, strict=True):
        assert np.array_equal(whole, parts.reshape(whole.shape))
        assert np.array_equal(whole[4], alone)


@pytest.mark.parametrize("force", [[np.nan, 0], [1.5, 0], [0], [np.inf, 0]])
def test_forces_that_are_none(force):
    with pytest.raises(ValueError, match="between -1 and 1"):
        push([0, 1], [0, -1], force)
    env = gymnasium.make("empowerment/PredatorPrey-v0").unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match="between -1 and 1"):
        env.step(np.array(force, np.float32))


@pytest.mark.parametrize("option", [{"noise": 0.0}, {"speed": 1.5}, {"view": "below"}])
def test_bad_options(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        make("predator-prey", **option)


def test_models_that_do_not_parse(tmp_path):
    bad, other = tmp_path / "bad.xml", tmp_path / "other.xml"
    bad.write_text("<mujoco><nonsense/></mujoco>")
    other.write_text(
        "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
    )
    with pytest.raises(ValueError, match=r"bad\.xml.* mend the file"):
        make("predator-prey", model=str(bad))
    with pytest.raises(ValueError, match="has 7 coordinates"):
        make("predator-prey", model=str(other))
    with pytest.raises(ValueError, match="does not exist"):
        make("predator-prey", model=str(tmp_path / "none.xml"))


def test_without_mujoco_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("mujoco"):
            raise ImportError(name)
        return real(name, *rest)

    for name in [m for m in sys.modules if m.partition(".")[0] == "mujoco"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    world = PredatorPrey()  # so that worlds can be listed
    with pytest.raises(ValueError, match=r'pip install "\.\[mujoco\]" in the clone'):
        world.step(world.start, np.zeros(2), np.zeros(4))


class Explosive(PredatorPrey):
    """Forces so large, in every fifth copy, that the simulation diverges."""

    def _chase(self, agent, predator):
        force = super()._chase(agent, predator)
        force[::5] = 1e12
        return force


def test_a_simulation_that_diverges_is_counted_and_never_learned_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warnings to a file
    copies = Copies(Explosive(), 20, restart=0.2)
    where = StreamCollector(copies, 64)

    def choose(frames, rows, key):
        return np.zeros((len(rows), 3, 2), np.float32), np.zeros(len(rows))

    import jax

    _, batch = where.collect((), choose, key=jax.random.key(0))
    assert where.dropped > 0
    assert where.dropped % 4 == 0
    assert np.isfinite(batch.frames).all()
    assert np.abs(batch.frames).max() < 50


def test_pictures_from_above_show_both():
    image = WORLD.picture(WORLD.start)
    assert image.shape == (256, 256, 3)
    blue, red = (
        (image[..., 2] > 220) & (image[..., 0] < 100),
        (image[..., 0] > 200) & (image[..., 2] < 100),
    )
    assert 100 < blue.sum() < 400
    assert np.argwhere(blue)[:, 1].mean() < np.argwhere(red)[:, 1].mean()


@pytest.mark.filterwarnings("ignore")  # of the window library, where there is no display
def test_pictures_in_3d_or_a_sentence_that_says_what_to_install():
    try:
        image = make("predator-prey", view="3d").picture(WORLD.start)
    except ValueError as error:
        sentence = str(error)
        assert "MUJOCO_GL" in sentence
    else:
        assert image.shape == (256, 256, 3)
        assert image.std() > 10


def test_landscape_states_lie_on_their_plane():
    states = WORLD.states()
    places = WORLD.locate(states)
    assert len(np.unique(places, axis=0)) == 225
    corner = states.agent[(places == [0, 14]).all(axis=1)][0]
    assert np.allclose(corner[:2], [ROOM, ROOM])


def test_greedy_takes_the_best_of_the_candidate_forces():
    """With minus the distance to a point as the value, the agent drives there."""

    def value(states):
        return -np.linalg.norm(
            np.asarray(states.agent)[:, :2] + 0.9 * np.asarray(states.agent)[:, 2:4] - [1.0, 1.0],
            axis=1,
        )

    start = at_rest(np.array([[-1.0, 1.0]]), np.array([[1.2, -1.2]]))
    greedy = run_episodes(WORLD, Greedy(WORLD, value), start, 8)[0]
    assert greedy.actions.shape == (8, 2)
    assert np.allclose(greedy.actions[0], [1, 0], atol=0.4)
    assert np.linalg.norm(greedy.states.agent[-1, :2] - [1, 1]) < 0.3
    assert len(greedy.expected[0]) == len(candidates(WORLD)) == 17
    assert run_episodes(WORLD, Random(WORLD, value), start, 3)[0].summary()["actions"][0] != [
        0.0,
        0.0,
    ]
