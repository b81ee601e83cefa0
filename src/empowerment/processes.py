"""Several processes for one run: started here on one machine, or joined from several."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from typing import IO, Any

HEARTBEAT = 20
"""Seconds without a sign of life after which a process counts as lost."""
GRACE = 40
"""Seconds that the others have to end on their own after one was lost."""
LOST = "lost another one"
"""What a process says that has only noticed the end of another (`devices.naming_losses`)."""
FAREWELL = 24 * 3600
"""Seconds that processes that are done wait for those that are not."""


@contextlib.contextmanager
def together(
    coordinator: str | None, process_id: int | None, process_count: int | None
) -> Iterator[None]:
    """Join the other processes of a run: `coordinator` is HOST:PORT of process 0, or "auto" in a
    SLURM, Kubernetes, Open MPI or TPU job, where JAX finds the rest out. Without one this process
    is alone.

    A process that fails leaves at once: the farewell that JAX takes on exit would wait for the
    others, and they for it.
    """
    if coordinator is None:
        if process_id is not None or process_count is not None:
            raise ValueError(
                "process_id and process_count number the processes of a coordinator; give one, or "
                "neither"
            )
        yield
        return
    _check(coordinator, process_id, process_count)
    os.environ.setdefault(
        "TF_CPP_MIN_LOG_LEVEL", "3"
    )  # what the runtime says when a process is lost is said below
    try:
        with _quiet():
            _initialise(coordinator, process_id, process_count)
        yield
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        said = isinstance(error, (ValueError, OSError, RuntimeError))
        words = "interrupted; continue with --resume" if interrupted else error
        print(
            f"empowerment: {words}" if said or interrupted else traceback.format_exc(),
            file=sys.stderr,
        )
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130 if interrupted else 2 if said else 1)


def _initialise(coordinator: str, process_id: int | None, process_count: int | None) -> None:
    import jax
    from jax.experimental import multihost_utils

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)
    known: dict[str, Any] = {
        "coordinator_address": coordinator,
        "cluster_detection_method": "deactivate",
    }
    jax.distributed.initialize(
        **({} if coordinator == "auto" else known),
        num_processes=process_count,
        process_id=process_id,
        heartbeat_timeout_seconds=HEARTBEAT,
        shutdown_timeout_seconds=FAREWELL,
    )
    # The processes connect now, while none of them is busy: connections that are late are given up.
    multihost_utils.sync_global_devices("joined")


def _check(coordinator: str, process_id: int | None, process_count: int | None) -> None:
    if coordinator == "auto":
        return
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(
            f"coordinator={coordinator!r} is not HOST:PORT; give the address of process 0, or "
            "'auto'"
        )
    if process_count is None or process_id is None or not 0 <= process_id < process_count:
        raise ValueError(
            f"process_id={process_id} and process_count={process_count} do not number a process; "
            "with a coordinator "
            "give both, and number processes from 0"
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Standard output is for results: what libraries print there is dropped."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def launch(args: list[str], count: int) -> int:
    """Run a command as `count` processes of this machine, each on its share of the cores; gives the
    exit status."""
    if count < 1:
        raise ValueError(f"processes={count} must be a whole number of 1 or more")
    address = f"127.0.0.1:{_free_port()}"
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(count)]
        stack.enter_context(_ended_with_children())
        running: list[subprocess.Popen] = []
        try:
            for i in range(count):
                running.append(_start(args, address, i, count, logs[i]))
            _wait(running)
        except SystemExit:  # asked to end: nobody has asked the others
            for process in running:
                process.terminate()
            raise
        finally:
            killed = _stop(running)
        return _explain(
            [process.returncode for process in running], killed, [_read(log) for log in logs]
        )


@contextlib.contextmanager
def _ended_with_children() -> Iterator[None]:
    """A program that is asked to end (SIGTERM) ends what it has started first."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _start(
    args: list[str], address: str, process: int, count: int, log: IO[str]
) -> subprocess.Popen:
    """The first process speaks to the person; what others say is shown only if they fail."""
    numbers = f"--process-id {process} --process-count {count}"
    joining = f"--processes 1 --coordinator {address} {numbers}".split()
    quiet = {} if process == 0 else {"stdout": subprocess.DEVNULL, "stderr": log}
    cores = _cores(process, count)
    return subprocess.Popen(
        [sys.executable, "-m", "empowerment", *args, *joining],
        preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
        **quiet,
    )


def _cores(process: int, count: int) -> list[int]:
    """This process's share: processes that each use all cores get in each other's way."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return cores[process::count] or cores[process % max(len(cores), 1) :][:1]


def _wait(running: list[subprocess.Popen]) -> None:
    """Until all are done, or one has failed."""
    while any(process.poll() is None for process in running) and not any(
        process.poll() for process in running
    ):
        time.sleep(0.1)


def _stop(running: list[subprocess.Popen]) -> set[int]:
    """Let the others end on their own, and end those that do not: which these are."""
    end, killed = time.monotonic() + GRACE, set()
    for i, process in enumerate(running):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(end - time.monotonic(), 0))
        if process.poll() is None:
            killed.add(i)
            process.kill()
            process.wait()
    return killed


def _read(log: IO[str]) -> str:
    log.seek(0)
    return log.read()


def _explain(codes: list[int], killed: set[int], said: list[str]) -> int:
    """The exit status, and what the process said that failed by itself: others only noticed that it
    was lost."""
    failed = [i for i, code in enumerate(codes) if code and i not in killed]
    if not failed:
        return 0

    def innocence(i: int) -> tuple[bool, bool, int]:
        return codes[i] > 0, i == 0 or LOST in said[i], i

    first = min(failed, key=innocence)
    status = codes[first]
    if status < 0:
        how = f"was ended by {signal.Signals(-status).name}"
        say = (
            f"process {first} of {len(codes)} {how}, and the others have stopped; continue "
            "with --resume"
        )
        print(f"empowerment: {say}", file=sys.stderr)
        return 1
    sys.stderr.write(said[first])
    return status


def _free_port() -> int:
    """Below those that the system hands out, so that none of what is started meanwhile is given
    it."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port between 20000 and 30000 is free")
