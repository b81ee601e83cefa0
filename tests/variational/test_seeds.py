"""Several seeds side by side are what they are alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import empowerment as emp
from empowerment.variational.checkpoint import RunDirectory

TINY = {
    "updates": 20,
    "batch": 32,
    "hidden": 8,
    "features": 8,
    "layers": 2,
    "ema": 0.0,
    "optimiser": "adam",
    "progress": False,
}


def test_seeds_together_are_seeds_alone(tmp_path, monkeypatch):
    # For the processes: they begin sooner, and show the same.
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    (tmp_path / "map.txt").write_text("######\n#a...#\n#.#..#\n#....#\n######\n")
    world = emp.make(tmp_path / "map.txt")
    together = [
        seed.landscape().nats
        for seed in emp.train_seeds(world, 2, [4, 7], tmp_path / "many", **TINY)
    ]
    alone = emp.train_seeds(world, 2, [7], tmp_path / "one", **TINY)[0].landscape().nats
    assert np.allclose(together[1], alone, atol=1e-5)
    assert not np.allclose(together[0], alone, atol=1e-5)
    one, many = (RunDirectory(tmp_path / path / "seed-7") for path in ("one", "many"))
    assert one.facts() == many.facts()
    assert (
        [p.name for p in one.checkpoints()]
        == [p.name for p in many.checkpoints()]
        == ["00000020.safetensors"]
    )
    ring = emp.from_transitions([[1, 2], [2, 0], [0, 1]])  # a run cannot hold it
    assert len(emp.train_seeds(ring, 1, [0], tmp_path / "ring", **TINY)[0].landscape()) == 3
    with pytest.raises(ValueError, match="holds a run already"):
        emp.train_seeds(world, 2, [8, 7], tmp_path / "many", **TINY)


def test_seeds_may_come_one_by_one_but_not_none(tmp_path):
    with pytest.raises(ValueError, match="seeds is empty"):
        emp.train_seeds(emp.make("tree"), 1, iter(()), tmp_path)
    with pytest.raises(ValueError, match="seed=-1"):
        emp.train_seeds(emp.make("tree"), 1, (s for s in (0, -1)), tmp_path)


def test_live_environments_are_refused():
    world = emp.from_gymnasium(gymnasium.make("CartPole-v1"), copies=1)
    with pytest.raises(ValueError, match=r"call emp\.train once for each seed"):
        emp.train_seeds(world, 2, [0])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_one_that_started_them(tmp_path, how):
    pid = tmp_path / "pid"
    job = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(120)"
    program = (
        "from empowerment.variational.seeds import side_by_side\n"
        f"side_by_side(exec, [{job!r}], lambda: None)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    try:
        wait_for(lambda: pid.exists() and pid.read_text())
        parent.send_signal(how)
        parent.wait(30)
        child = int(pid.read_text())
        wait_for(lambda: not alive(child))
    finally:
        parent.kill()


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


def alive(pid):
    """Whether a process runs: on Linux one that has ended and that nobody has asked after is Z."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # another system
        return not Path("/proc/self").exists()
