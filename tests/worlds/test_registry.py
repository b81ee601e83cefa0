import json

import numpy as np
import pytest

from empowerment import make, worlds
from empowerment.worlds.registry import rebuild


def test_every_world_is_made_and_observed():
    assert len(worlds()) >= 11
    for name in worlds():
        world = make(name)
        assert world.name == name
        assert np.asarray(world.observe(world.start)).ndim in (1, 3)


@pytest.mark.parametrize(
    "name", ["open-room", "cross-room", "two-rooms", "box-empty", "box-fixed", "box-movable"]
)
def test_static_and_box_rooms_are_twenty_by_twenty(name):
    assert make(name).observe(make(name).start).shape == (20, 20, 3)


def test_a_file_is_a_world(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("####\n#a.#\n####\n")
    world = make(path)
    assert world.name == "mine"
    assert len(world.states().agent) == 2


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("two-room", {}, ["'two-room'", "did you mean 'two-rooms'?"]),
        ("nowhere/map.txt", {}, ["nowhere/map.txt", "does not exist"]),
        ("two-rooms", {"slipp": 0.1}, ["'slipp'", "did you mean 'slip'?"]),
        ("tree", {"slip": 0.1}, ["'slip'", "depth"]),
        ("tree", {"depth": 0}, ["depth=0"]),
    ],
)
def test_bad_names_and_options(name, options, words):
    with pytest.raises(ValueError) as error:
        make(name, **options)
    assert all(word in str(error.value) for word in words)


def test_a_binary_file_is_not_a_map(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not text"):
        make(path)


@pytest.mark.parametrize("name", worlds())
def test_every_world_is_rebuilt_from_what_a_run_says_of_it(name):
    world = make(name)
    again = rebuild(json.loads(json.dumps(world.spec())))
    assert again is not None
    assert again.spec() == world.spec()
    np.testing.assert_array_equal(again.observe(again.start), world.observe(world.start))


@pytest.mark.parametrize(
    "drawn",
    [
        "#####\n#a.b#\n#####",
        "\n#####\n#a.b#\n#####\n\n",
        "\ufeff#####\r\n#a.b#  \r\n#####\r\n",
        ["#####", "#a.b#", "#####"],
        ("#####", "#a.b#   ", "#####"),
    ],
    ids=["text", "blank lines", "byte-order mark", "list", "tuple"],
)
def test_a_map_in_place(drawn, tmp_path):
    world = make(drawn, slip=0.1)
    assert ["".join(row) for row in world.map.cells] == ["#####", "#a.b#", "#####"]
    assert (world.name, world.slip) == ("map", 0.1)
    if isinstance(drawn, str):
        (tmp_path / "drawn.txt").write_bytes(drawn.encode())
        assert (make(tmp_path / "drawn.txt").map.cells == world.map.cells).all()


def test_a_map_in_place_of_one_line():
    assert make(["#a.#"]).map.cells.shape == (1, 4)


@pytest.mark.parametrize(
    ("drawn", "why"), [([], "is empty"), (["#a", 3], "list of lines"), ("#a\n###", "ragged")]
)
def test_a_bad_map_in_place_is_one_sentence(drawn, why):
    with pytest.raises(ValueError, match=why):
        make(drawn)
