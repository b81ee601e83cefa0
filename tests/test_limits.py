"""Memory is asked for before it is taken: large worlds are refused, or learned without a table."""

import subprocess
import sys

import numpy as np
import pytest

import empowerment as emp
from empowerment import limits
from empowerment.variational import collect, training
from empowerment.variational.config import make_config

SCRIPT = """
import resource, sys
import empowerment as emp
side, limit = 500, 4 * 2**30
rows = ["#" * side, "#a" + "." * (side - 3) + "#", *["#" + "." * (side - 2) + "#"] * (side - 3), "#" * side]
world = emp.make(rows)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print("exact", len(emp.exact(world, 2)))
boxes = emp.make([*rows[:5], "#..b" + rows[5][4:], *rows[6:]])
for work in (lambda: emp.exact(boxes, 2), lambda: emp.train(world, 2, updates=1, progress=False)):
    try:
        work()
    except ValueError as error:
        print("refused", error)
"""


def test_a_large_map_is_not_killed(tmp_path):
    """Within four gigabytes of addresses: exact work is done, what does not fit is refused with its
    size."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=280
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0] == "exact 248004"
    assert "too large to enumerate: 248,003 states of 250,006 bytes" in lines[1]
    assert (
        "with 1,024 windows an update and observations of 500 x 500 x 3 numbers, needs about"
        in lines[2]
    )
    assert "give a smaller batch (batch=128)" in lines[2]


def test_memory_is_what_all_limits_leave(monkeypatch):
    monkeypatch.setattr(limits, "_system", lambda: 3 * limits.GIB)
    monkeypatch.setattr(limits, "_container", lambda: 2 * limits.GIB)
    assert limits.available_bytes() <= 2 * limits.GIB
    limits.refuse_beyond(limits.GIB, "nothing", "")
    with pytest.raises(
        ValueError, match=r"this needs about 2\.5 GiB of memory, and 2\.0 GiB are free; do that"
    ):
        limits.refuse_beyond(2.5 * limits.GIB, "this", "do that")


def test_a_world_whose_pictures_are_too_many_is_learned_without_a_table(monkeypatch):
    world = emp.make(["######", "#a...#", "#....#", "######"])
    config = make_config(world, 2, {"batch": 16})
    assert training._collector(world, config).frames is not None
    monkeypatch.setattr(collect, "LARGEST_FRAMES", 100)
    assert training._collector(world, config).frames is None
    assert np.isfinite(
        emp.train(world, 1, updates=2, batch=16, progress=False).landscape().nats
    ).all()


def test_starts_of_a_large_world_are_drawn_from_all_of_it(monkeypatch):
    world = emp.make("box-movable")
    all_starts = collect.beginnings(world, 2)
    monkeypatch.setattr(collect, "LARGEST_ROLLOUTS", 2**20)
    few = collect.beginnings(world, 2)
    assert len(few.agent) < len(all_starts.agent)
    own = few.agent[: len(few.agent) // 3]
    assert own.max() > 0.8 * world.states().agent.max()
    assert len(np.unique(own)) == len(own)
