"""Runs whose disk, process or user gives up at any moment."""

import contextlib
import errno
import gc
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import empowerment as emp
from empowerment.variational.checkpoint import RunDirectory

ROOT = Path(__file__).parents[2]
NOBODY = 65534


class Dead(BaseException):
    """The process is no more: nothing that it would still do happens."""


def write(out, chunks=4):
    """What a training does with its directory; the arrays stand for everything that is carried
    on."""
    directory = RunDirectory(out)
    with directory.locked():
        done, carry = 0, np.zeros(3)
        if directory.exists:
            directory.facts()
            found = directory.newest(metrics=True)
            if found is not None:
                done, carry = found[1]["updates"], found[0]["carry"]
            directory.tidy(*(0, 0) if found is None else (found[1]["metrics"], found[1]["updates"]))
        else:
            directory.create({"seed": 1})
        for i in range(done, chunks):
            carry = carry * 1.5 + i
            directory.log({"updates": i + 1, "sum": carry.sum()})
            directory.save(i + 1, {"carry": carry})


def content(out):
    return {
        p.relative_to(out): p.read_bytes()
        for p in out.rglob("*")
        if p.is_file() and p.name != "lock"
    }


@contextlib.contextmanager
def dying(monkeypatch, at):
    """Every call that changes the disk, from number `at` on, is one that a dead process does not
    make."""
    calls = []

    def fragile(function):
        def call(*args, **options):
            calls.append(args)
            if len(calls) > at:
                raise Dead
            return function(*args, **options)

        return call

    with monkeypatch.context() as patch:
        for name in ("fsync", "replace", "unlink", "mkdir", "open"):
            patch.setattr(os, name, fragile(getattr(os, name)))
        yield calls


def test_a_run_that_dies_at_any_instant_ends_the_same(tmp_path, monkeypatch):
    gc.collect()  # files of others that are closed meanwhile would be counted
    with dying(monkeypatch, at=10**6) as calls:
        write(tmp_path / "whole")
    whole = content(tmp_path / "whole")
    assert len(calls) > 20
    for at in range(len(calls)):
        out = tmp_path / str(at)
        with dying(monkeypatch, at), pytest.raises(Dead):
            write(out)
        write(out)
        assert content(out) == whole, f"after {at} calls"


@pytest.mark.parametrize("at", range(0, 30, 3))
def test_a_full_disk_is_one_sentence_and_the_last_checkpoint_stands(tmp_path, monkeypatch, at):
    write(tmp_path / "whole")
    flushes = []

    def full(number, original=os.fsync):
        flushes.append(number)
        if len(flushes) > at:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with contextlib.suppress(ValueError):
            write(tmp_path / "run")
        if len(flushes) > at:
            with pytest.raises(
                ValueError, match=r"cannot be written \(No space left on device\).*resume"
            ):
                write(tmp_path / "run")
    assert not list(tmp_path.rglob(".*.partial")), "no half-written file takes up room"
    write(tmp_path / "run")
    assert content(tmp_path / "run") == content(tmp_path / "whole")


def test_files_that_may_not_grow_are_one_sentence(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(ValueError, match=r"cannot be written.*File too large"):
            write(tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    write(tmp_path / "run")
    assert len(content(tmp_path / "run")) == 4


@contextlib.contextmanager
def unprivileged():
    """The superuser may write anywhere."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(own)


def test_a_read_only_directory_is_one_sentence():
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        out = Path(name)
        out.chmod(0o555)
        with (
            unprivileged(),
            pytest.raises(ValueError, match=r"cannot be written.*Permission denied"),
        ):
            write(out)
        out.chmod(0o755)
        assert not list(out.iterdir())


def test_links_are_not_written_through(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep")
    for name in ("lock", "metrics.jsonl", f".run.json.{os.getpid()}.partial"):
        out = tmp_path / name.strip(".")
        out.mkdir()
        (out / name).symlink_to(precious)
        with contextlib.suppress(ValueError):
            write(out)
        assert precious.read_text() == "keep", name


def test_checkpoints_without_a_description_are_not_thrown_away(tmp_path):
    write(tmp_path)
    (tmp_path / "run.json").unlink()
    with pytest.raises(ValueError, match=r"holds checkpoints and no run.json"):
        write(tmp_path)
    assert len(RunDirectory(tmp_path).checkpoints()) == 2


def command(*args):
    quick = "import jax; jax.config.update('jax_disable_most_optimizations', True)"
    short = "from empowerment.variational import training; training.CHUNK = 2"
    code = f"{quick}; {short}; from empowerment.cli import main; main()"
    # What runs in the background ignores Ctrl-C, and so would its children.
    heard = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code, *args],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, heard)


def interrupted(process):
    """What it says at Ctrl-C. One that falls into a clean-up of Python's memory is lost there; a
    user tries again."""
    for _ in range(30):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            said = process.communicate(timeout=30)[1]
            return re.sub(
                r"Exception ignored in.*?KeyboardInterrupt\s*\n", "", said, flags=re.DOTALL
            )
    raise AssertionError("it does not listen")


def test_a_second_process_is_refused_and_an_interrupt_leaves_a_usable_run(tmp_path):
    """The command line itself: two processes on one directory, then Ctrl-C."""
    (tmp_path / "map.txt").write_text("#####\n#a..#\n#####\n")
    args = [
        "train",
        str(tmp_path / "map.txt"),
        "--horizon",
        "1",
        "--updates",
        "99999",
        "--out",
        str(tmp_path / "run"),
    ]
    first = command(*args)
    try:
        while not list(tmp_path.glob("run/checkpoints/*.safetensors")):
            assert first.poll() is None, first.communicate()[1]
            time.sleep(0.05)
        second = command(*args, "--resume")
        _, sentence = second.communicate(timeout=900)
        assert second.returncode == 2
        assert f"is being written by process {first.pid}" in sentence
        assert "Traceback" not in sentence
        sentence = interrupted(first)
    finally:
        first.kill()
    assert first.returncode == 130
    assert "interrupted" in sentence
    assert "Traceback" not in sentence
    assert np.isfinite(emp.load(tmp_path / "run").landscape().nats).all()


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_trainings_end_the_same(kills):
    args = [
        sys.executable,
        ROOT / "benchmarks" / "kills.py",
        "--kills",
        str(kills),
        "--updates",
        "8",
    ]
    done = subprocess.run(args, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
