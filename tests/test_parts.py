"""Exact landscapes in parts are the whole, bit for bit."""

import os

import numpy as np
import pytest

import empowerment as emp
from empowerment.cli import main
from empowerment.parts import exact_in_processes, exact_part, join, read_part, save_part
from empowerment.worlds.grid import GridWorld, Map


def same(one, two):
    assert one.world == two.world
    for name in ("nats", "lower", "upper", "positions"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    return True


@pytest.mark.parametrize(("name", "slip"), [("box-movable", 0.0), ("cross-room", 0.1)])
def test_parts_joined_are_the_whole(name, slip):
    world = emp.make(name, slip=slip)
    states = world.states()
    whole = emp.exact(world, 2)
    parts = [exact_part(world, 2, states, i, parts=3) for i in range(3)]
    assert {len(part) for part in parts} == {len(whole) // 3, -(-len(whole) // 3)} or len(
        whole
    ) % 3 == 0
    joined = join(parts)
    assert np.abs(joined.nats - whole.nats).max() < 2e-9
    assert np.array_equal(joined.positions, whole.positions)
    assert emp.compare(joined, whole).r2 > 1 - 1e-9


def test_processes_give_the_same_as_one():
    world = emp.make("two-rooms")
    assert same(exact_in_processes(world, 3, processes=2), emp.exact(world, 3))


def test_a_job_array_joins_its_parts(tmp_path, capsys):
    for part in (2, 0):
        main(
            ["exact", "two-rooms", "--horizon", "2", "--part", f"{part}/3", "--out", str(tmp_path)]
        )
        assert not (tmp_path / "landscape.safetensors").exists()
    main(["exact", "two-rooms", "--horizon", "2", "--part", "1/3", "--out", str(tmp_path)])
    assert same(
        emp.Landscape.load(tmp_path / "landscape.safetensors"), emp.exact(emp.make("two-rooms"), 2)
    )
    assert "292 states" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["3", "3/3", "a/2", "-1/2", "1/0"])
def test_bad_parts_are_named(text):
    with pytest.raises(ValueError, match="number parts from 0"):
        read_part(text)


def test_parts_of_different_landscapes_are_refused(tmp_path):
    one, two = (exact_part(emp.make("two-rooms"), k, None, 0, parts=2) for k in (1, 2))
    with pytest.raises(ValueError, match="join parts of one landscape"):
        join([one, two])
    assert save_part(emp.make("two-rooms"), one, tmp_path, 0, 2) is None
    with pytest.raises(ValueError, match="at most 292"):
        exact_part(emp.make("two-rooms"), 1, None, 0, parts=300)


def test_parts_of_another_world_in_the_same_directory_are_not_joined(tmp_path):
    def part(slip, number):
        world = emp.make("two-rooms", slip=slip)
        return save_part(world, exact_part(world, 1, None, number, parts=2), tmp_path, number, 2)

    assert part(0.0, 0) is None
    assert part(0.5, 1) is None
    assert same(part(0.0, 1), emp.exact(emp.make("two-rooms"), 1))


def test_a_process_that_dies_is_one_sentence():
    with pytest.raises(ChildProcessError, match="ended from outside"):
        exact_in_processes(Deadly(Map.parse("a.", "deadly")), 1, processes=2)


class Deadly(GridWorld):
    """Ends every process that steps it, as a lack of memory would."""

    def step(self, state, action, outcome):
        os._exit(9)
