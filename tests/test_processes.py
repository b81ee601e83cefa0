"""Learning in several processes: real ones, on this machine."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from empowerment import processes
from empowerment.variational.checkpoint import RunDirectory

ROOT = Path(__file__).parents[1]
MAP = "######\n#a...#\n#.#..#\n#....#\n######\n"
BOXES = "########\n#a..b..#\n#.b....#\n#...b..#\n########\n"
"""More states than are tabulated."""
SETTINGS = {
    "updates": 60,
    "chunk": 10,
    "batch": 32,
    "hidden": 8,
    "features": 8,
    "learning_rate": 4e-3,
    "layers": 2,
    "optimiser": "adam",
    "dies": None,
}
"""`dies`: the chunk in which the second process is killed."""
TRAIN = """
import sys, json, os, signal
from empowerment.processes import together
world, out, address, process, count, settings = sys.argv[1:]
with together(address or None, *((int(process), int(count)) if address else (None, None))):
    import gymnasium, empowerment as emp
    from empowerment.variational import training
    settings = json.loads(settings)
    training.CHUNK = settings.pop("chunk")
    chunks, gathered, dies = [], training.gathered, settings.pop("dies")
    def counted(*args):
        chunks.append(args)
        if len(chunks) == dies and process == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return gathered(*args)
    training.gathered = counted
    world = emp.from_gymnasium(gymnasium.make("CartPole-v1"), copies=2) if world == "CartPole" else emp.make(world)
    emp.train(world, 2, out=out, progress=False, **settings)
"""


def environ():
    # Without optimisations, and with what another process has compiled before, they begin sooner
    # and show the same.
    more = {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu", **more}


def start(world, out, process=0, count=1, port=0, devices=1, **settings):
    address = f"127.0.0.1:{port}" if count > 1 else ""
    words = [
        str(world),
        str(out),
        address,
        str(process),
        str(count),
        json.dumps(SETTINGS | settings),
    ]
    environment = environ() | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    return subprocess.Popen(
        [sys.executable, "-c", TRAIN, *words], env=environment, stderr=subprocess.PIPE, text=True
    )


def start_two(world, out, **settings):
    port = processes._free_port()
    return [start(world, out, i, 2, port, **settings) for i in range(2)]


def finish(running, seconds=900):
    """Exit status and standard error of each."""
    try:
        said = [process.communicate(timeout=seconds)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    return [process.returncode for process in running], said


def newest(out):
    directory = RunDirectory(out)
    directory.facts()
    return directory.newest()[0]


@pytest.mark.parametrize(
    ("name", "drawing"), [("tabulated", MAP), pytest.param("boxes", BOXES, marks=pytest.mark.slow)]
)
def test_two_devices_learn_what_one_learns(tmp_path, name, drawing):
    """Two processes of one device each, and one process of two."""
    world = tmp_path / f"{name}.txt"
    world.write_text(drawing)
    short = {"updates": 30}
    codes, said = finish(start_two(world, tmp_path / "processes", **short))
    assert codes == [0, 0], said
    one, two = (tmp_path / name for name in ("one", "devices"))
    codes, said = finish([start(world, one, **short), start(world, two, devices=2, **short)])
    assert codes == [0, 0], said
    one = newest(tmp_path / "one")
    for run in ("processes", "devices"):
        two = newest(tmp_path / run)
        assert one.keys() == two.keys()
        for key, array in one.items():
            if array.dtype.kind == "f":
                assert np.allclose(array, two[key], rtol=1e-4, atol=1e-5), (
                    key,
                    np.abs(array - two[key]).max(),
                )
            elif key == "agents/drawn":
                # Rounding may carry the border between two starts past one stratified point.
                differ = np.abs(array - two[key])
                assert differ.max() <= 1, f"{key}: {array} and {two[key]}"
                assert (differ > 0).sum() <= 1, f"{key}: {array} and {two[key]}"
            else:
                assert np.array_equal(array, two[key]), f"{key}: agents must be in the same places"
    assert np.abs(one["learner/model/decoder/last"]).max() > 0.01, "it is zero at first"


def test_a_lost_process_stops_the_others_and_one_goes_on(tmp_path):
    world, out = tmp_path / "map.txt", tmp_path / "run"
    world.write_text(MAP)
    (status, killed), (said, _) = finish(start_two(world, out, dies=3))
    assert (status, killed) == (2, -signal.SIGKILL), said
    assert "empowerment: process 0 of 2 lost another one; the last checkpoint stands" in said
    assert "Traceback" not in said
    kept = int(sorted((out / "checkpoints").glob("*.safetensors"))[-1].stem)
    assert kept in (20, 30), "the chunk that both had made, if its file was written in time"
    codes, said = finish([start(world, out, resume=True)])
    assert codes == [0], said
    lines = [
        json.loads(line)["updates"] for line in (out / "metrics.jsonl").read_text().splitlines()
    ]
    assert lines == list(range(10, 61, 10))


@pytest.mark.slow
def test_environments_are_stepped_by_each_process(tmp_path):
    codes, said = finish(start_two("CartPole", tmp_path, updates=4, chunk=2))
    assert codes == [0, 0], said
    assert np.isfinite(newest(tmp_path)["learner/model/psi/network/biases/0"]).all()


def command(tmp_path):
    (tmp_path / "map.txt").write_text(MAP)
    words = shlex.split(
        "train map.txt --horizon 1 --updates 2 --batch 32 --out run --processes 2 --json"
    )
    command = [sys.executable, "-m", "empowerment", *words]
    return subprocess.run(
        command, cwd=tmp_path, env=environ(), capture_output=True, text=True, timeout=900
    )


@pytest.mark.slow
def test_the_command_line_starts_processes(tmp_path):
    done = command(tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["states"] == 11


def test_what_the_first_process_refuses_ends_all(tmp_path):
    RunDirectory(tmp_path / "run").create({})
    done = command(tmp_path)
    assert done.returncode == 2
    assert "holds a run already" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("codes", "killed", "logs", "status", "says"),
    [
        ((2, -9), set(), ("", ""), 1, "process 1 of 2 was ended by SIGKILL"),
        ((2, 2), set(), ("", "empowerment: no memory"), 2, "no memory"),
        ((2, 2), set(), ("", f"process 1 of 2 {processes.LOST}"), 2, ""),
        ((2, -9), {1}, ("", ""), 2, ""),
        ((0, 0), set(), ("", ""), 0, ""),
    ],
)
def test_the_process_that_failed_is_named_not_those_that_noticed(
    codes, killed, logs, status, says, capsys
):
    assert processes._explain(list(codes), killed, list(logs)) == status
    said = capsys.readouterr().err
    assert says in said
    assert says or not said


def test_slurm_is_recognised():
    """The variables that srun sets are enough."""
    print_count = (
        "from empowerment.processes import together\n"
        "with together('auto', None, None):\n"
        "    import jax; print(jax.process_index(), jax.process_count())"
    )
    job = {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
    }
    running = []
    for task in ("0", "1"):
        environment = environ() | job | {"SLURM_PROCID": task, "SLURM_LOCALID": task}
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", print_count], env=environment, stdout=-1, text=True
            )
        )
    assert sorted(process.communicate(timeout=900)[0] for process in running) == ["0 2\n", "1 2\n"]


@pytest.mark.parametrize(
    ("coordinator", "process", "count", "words"),
    [
        ("nowhere", 0, 2, "is not HOST:PORT"),
        ("host:1", 2, 2, "number a process"),
        ("host:1", None, 2, "give both"),
    ],
)
def test_bad_addresses_are_named(coordinator, process, count, words):
    with pytest.raises(ValueError, match=words), processes.together(coordinator, process, count):
        pass


def test_cores_are_shared_out(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 7}, raising=False)
    assert [processes._cores(i, 2) for i in range(2)] == [[0, 2, 7], [1, 3]]
    assert [processes._cores(i, 7) for i in (0, 5, 6)] == [[0], [0], [1]]
