import json

import numpy as np
import pytest
from PIL import Image, ImageSequence

import empowerment as emp
from empowerment.behaviour import Greedy, Random, exact_value, run_episode
from empowerment.figures.episode import filmstrip, save_episode, video


def episode_of(name, kind=Greedy, steps=9):
    world = emp.make(name)
    return world, run_episode(world, kind(world, exact_value(world, 2)), steps)


def test_every_panel_has_its_nine_bars_and_one_is_black():
    world, episode = episode_of("lava-maze")
    axes = [ax for ax in filmstrip(world, episode, every=2, panels=4).axes if ax.containers]
    assert len(axes) == 4
    for t, ax in zip((0, 2, 4, 6), axes, strict=True):
        heights = [bar.get_height() for bar in ax.containers[0]]
        black = [
            i for i, bar in enumerate(ax.containers[0]) if bar.get_facecolor()[:3] == (0, 0, 0)
        ]
        np.testing.assert_allclose(heights, episode.expected[t])
        assert black == [episode.actions[t]]
        assert [label.get_text() for label in ax.get_xticklabels()] == [
            "↑",
            "↓",
            "←",
            "→",
            "•",
            "▪↑",
            "▪↓",
            "▪←",
            "▪→",
        ]
    assert axes[0].get_ylabel() == "nats"


def test_panels_say_their_step_and_value():
    world, episode = episode_of("two-rooms", Random)
    figure = filmstrip(world, episode, every=4)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert [title.split(":")[0] for title in titles] == ["step 0", "step 4", "step 8"]
    assert titles[0].endswith(f"{episode.empowerment[0]:.2f} nats")
    assert not any(ax.containers for ax in figure.axes)


def test_times_are_dense_at_first_and_end_with_the_last():
    from empowerment.figures.episode import _times

    assert _times(200, None, 8)[0] == 0
    assert _times(200, None, 8)[-1] == 200
    assert len(_times(200, None, 8)) == 8
    assert _times(3, None, 8) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="every=0"):
        _times(10, 0, 8)


@pytest.mark.parametrize("name", ["tree", "lava-corridor", "key-door"])
def test_every_kind_of_world_can_be_drawn(name, tmp_path):
    world, episode = episode_of(name)
    filmstrip(world, episode).savefig(tmp_path / "film.png")
    assert (tmp_path / "film.png").stat().st_size > 5000


def test_worlds_without_a_plane_are_drawn_as_rows(tmp_path):
    world = emp.from_transitions(np.array([[0, 1], [1, 2], [2, 0]]))
    episode = run_episode(world, Greedy(world, exact_value(world, 1)), 3)
    assert episode.path is None
    filmstrip(world, episode).savefig(tmp_path / "film.png")
    video(world, episode, tmp_path / "film.gif")


def test_a_video_shows_every_step_in_squares(tmp_path):
    world, episode = episode_of("lava-corridor")
    video(world, episode, tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        frames = [
            (np.asarray(frame.convert("RGB")), frame.info["duration"])
            for frame in ImageSequence.Iterator(film)
        ]
    cell = 34  # pixels: 480 pixels for fourteen cells
    assert (
        sum(duration for _, duration in frames) == 200 * episode.steps + 1000
    )  # a second of rest at the end
    seen = [frame[cell // 2 :: cell, cell // 2 :: cell] for frame, _ in frames]
    shown = world.observe(episode.states)
    moved = [
        0,
        *(1 + np.flatnonzero((shown[1:] != shown[:-1]).any(axis=(1, 2, 3)))),
    ]  # equal frames are joined
    assert np.array_equal(np.stack(seen), shown[moved])


def test_a_saved_episode_has_its_summary_filmstrip_and_video(tmp_path):
    world, episode = episode_of("lava-corridor", steps=3)
    save_episode(world, episode, tmp_path / "new")
    assert {p.name for p in (tmp_path / "new").iterdir()} == {
        "episode.json",
        "filmstrip.pdf",
        "filmstrip.png",
        "video.gif",
    }
    assert json.loads((tmp_path / "new" / "episode.json").read_text()) == episode.summary()
