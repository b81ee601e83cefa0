import json
from collections import namedtuple

import numpy as np
import pytest
from safetensors.numpy import save_file

import empowerment as emp
from empowerment.landscape import FORMAT
from empowerment.worlds.world import leaves


@pytest.fixture
def line():
    """Three states in a row, with values worked out by hand below."""
    world = emp.make("tree", depth=1)
    return lambda values, horizon=2: emp.Landscape.of(world, horizon, world.states(), values)


def test_values_bits_and_grid():
    world = emp.make("open-room")
    land = emp.exact(world, 1)
    assert len(land) == 18 * 18
    np.testing.assert_allclose(land.bits, land.nats / np.log(2))
    grid = land.grid()
    assert grid.shape == (20, 20)
    assert np.isnan(grid[0]).all()
    assert np.isfinite(grid[1:-1, 1:-1]).all()
    assert grid[1, 1] == np.log(3)
    assert grid[9, 9] == np.log(5)


def test_states_that_share_a_cell_show_the_highest():
    world = emp.make("open-room")
    cells = world.place([21, 21, 22])
    grid = emp.Landscape.of(world, 1, cells, [1.0, 3.0, 2.0]).grid()
    assert (grid[1, 1], grid[1, 2]) == (3, 2)


def test_a_world_without_a_layout_has_no_grid():
    land = emp.exact(emp.from_transitions(np.array([[0, 1], [1, 0]])), 1)
    with pytest.raises(ValueError, match="has no layout"):
        land.grid()


def test_learned_landscapes_claim_nothing(line):
    land = line([1.0, 2.0, 3.0])
    assert np.isnan(land.lower).all()
    assert np.isnan(land.upper).all()


def test_one_value_for_each_state(line):
    with pytest.raises(ValueError, match=r"nats has shape \(2,\) for 3 states"):
        line([1.0, 2.0])


@pytest.mark.parametrize("name", ["key-door", "lava-maze", "tree"])
def test_saved_and_loaded(tmp_path, name):
    land = emp.exact(emp.make(name), 2)
    land.save(tmp_path / "a.safetensors")
    back = emp.Landscape.load(tmp_path / "a.safetensors")
    assert (back.world, back.horizon) == (name, 2)
    for field in ("nats", "lower", "upper", "positions"):
        np.testing.assert_array_equal(getattr(back, field), getattr(land, field))
    assert type(back.states) is type(land.states)
    for a, b in zip(leaves(back.states), leaves(land.states), strict=True):
        np.testing.assert_array_equal(a, b)
    assert land.layout is not None
    assert back.layout is not None
    assert back.layout.marks == land.layout.marks
    np.testing.assert_array_equal(back.grid(), land.grid())
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_other_named_tuples_keep_their_names(tmp_path):
    Pair = namedtuple("Pair", ["place", "speed"])
    values = np.zeros(2)
    land = emp.Landscape(
        "ball", 3, Pair(np.array([1.0, 2.0]), np.zeros((2, 3))), values, values, values
    )
    land.save(tmp_path / "a.safetensors")
    back = emp.Landscape.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(back.states.place, [1, 2])
    assert back.states.speed.shape == (2, 3)
    assert back.layout is None


def test_loading_refuses_other_files(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(ValueError, match="does not exist"):
        emp.Landscape.load(path)
    path.write_bytes(b"not a landscape at all")
    with pytest.raises(ValueError, match="is not a landscape"):
        emp.Landscape.load(path)
    save_file({"nats": np.zeros(2)}, path)
    with pytest.raises(ValueError, match="is not a landscape"):
        emp.Landscape.load(path)
    header = {"format": FORMAT, "world": "x", "horizon": 1, "state": "array", "fields": []}
    arrays = {
        "nats": np.zeros(2),
        "lower": np.zeros(2),
        "upper": np.zeros(2),
        "state.0": np.zeros(3, np.int32),
    }
    save_file(arrays, path, metadata={"landscape": json.dumps(header)})
    with pytest.raises(ValueError, match="different lengths"):
        emp.Landscape.load(path)
    arrays["state.0"] = np.zeros(2, np.int32)
    for damage in ([], {**header, "fields": 3}, {**header, "world": "x", "horizon": None}):
        save_file(arrays, path, metadata={"landscape": json.dumps(damage)})
        with pytest.raises(ValueError, match=r"is damaged|is not a landscape"):
            emp.Landscape.load(path)


def test_loading_refuses_states_outside_the_walls(tmp_path):
    path = tmp_path / "x.safetensors"
    header = {
        "format": FORMAT,
        "world": "x",
        "horizon": 1,
        "state": "array",
        "fields": [],
        "marks": [],
    }
    arrays = {name: np.zeros(1) for name in ("nats", "lower", "upper")}
    arrays |= {
        "state.0": np.zeros(1, np.int32),
        "walls": np.zeros((2, 2), bool),
        "positions": np.array([[0, 2]]),
    }
    save_file(arrays, path, metadata={"landscape": json.dumps(header)})
    with pytest.raises(ValueError, match="outside its walls"):
        emp.Landscape.load(path)


def test_plot_labels_its_colours_and_marks():
    land = emp.exact(emp.make("key-door"), 1)
    ax = land.plot()
    assert ax.child_axes[0].get_ylabel() == "empowerment (nats)"
    assert {text.get_text() for text in ax.texts} == {"k", "d"}
    assert ax.images[0].get_cmap().name == "viridis"
    fixed = land.plot(limits=(0.0, 9.0), colour_bar=False)
    assert fixed.images[0].get_clim() == (0, 9)
    assert not fixed.child_axes


def test_what_cannot_be_written_is_an_error_of_the_disk(tmp_path, line, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        line([1.0, 2.0, 3.0]).save(tmp_path / "file" / "a.safetensors")

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        line([1.0, 2.0, 3.0]).save(tmp_path / "a.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_compare_by_hand(line):
    result = emp.compare(line([1.0, 2.0, 4.0]), line([1.0, 2.0, 3.0]))
    assert result.r2 == pytest.approx(1 - 1 / 2)
    assert result.bias == pytest.approx(1 / 3)
    assert result.max_error == 1
    assert result.rms == pytest.approx(np.sqrt(1 / 3))
    assert result.pearson == pytest.approx(3 / np.sqrt(2 * 14 / 3))
    assert result.argmax_agrees
    assert "R² 0.5000" in str(result)
    assert "same maximum" in str(result)


def test_maxima_agree_within_a_hundredth_of_a_nat(line):
    exact = line([1.0, 2.995, 3.0])
    assert emp.compare(line([0.0, 9.0, 1.0]), exact).argmax_agrees
    assert not emp.compare(line([9.0, 1.0, 1.0]), exact).argmax_agrees


def test_a_constant_exact_landscape_has_no_r2(line):
    result = emp.compare(line([1.0, 2.0, 3.0]), line([2.0, 2.0, 2.0]))
    assert np.isnan(result.r2)
    assert np.isnan(result.pearson)
    assert result.constant
    assert "constant" in str(result)
    assert np.isnan(emp.compare(line([2.0, 2.0, 2.0]), line([1.0, 2.0, 3.0])).pearson)


def test_compare_refuses_different_landscapes(line):
    three = line([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="horizons 2 and 5"):
        emp.compare(three, line([1.0, 2.0, 3.0], horizon=5))
    world = emp.make("tree", depth=1)
    with pytest.raises(ValueError, match="2 and 3 states"):
        emp.compare(emp.exact(world, 2, np.array([0, 1])), three)
    with pytest.raises(ValueError, match="different states"):
        emp.compare(emp.exact(world, 2, np.array([2, 1, 0])), three)
    rooms = [emp.exact(emp.make("two-rooms", bricks=bricks), 1) for bricks in (False, True)]
    with pytest.raises(ValueError, match="different states"):
        emp.compare(*rooms)


def test_what_a_notebook_shows_is_short_and_a_picture():
    world = emp.make("two-rooms")
    land = emp.exact(world, 2)
    assert repr(land).startswith("<Landscape of 'two-rooms', K = 2: 292 states, ")
    assert "bounds within" in repr(land)
    closed = emp.exact(emp.make("tree", depth=2), 2, feedback=True, discount=0.9)
    assert "feedback, discount 0.9" in repr(closed)
    assert "data:image/png;base64," in land._repr_html_()
    assert "<img" not in closed._repr_html_() or closed.layout is not None
    for shown in (land, emp.compare(land, land), emp.capacity(np.eye(300)), closed):
        assert len(repr(shown)) < 600
    assert "learned" in repr(emp.Landscape.of(world, 2, world.states(), land.nats))
