"""Run directories: JSON and safetensors only, consistent at every instant; nothing in them is ever
executed.

run.json                            format, world, configuration, seed, versions, and a checksum
metrics.jsonl                       one line for each chunk of updates
memory.safetensors                  what was seen of an environment whose observations repeat
checkpoints/00001500.safetensors    everything carried on, with checksums of it, of run.json and of
                                    the metrics so far
lock                                who is writing

No file names another. Symbolic links are not followed when writing, so that nothing outside is ever
changed.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from ..files import write_atomically
from .trees import digest, flatten

FORMAT = 1
"""Version of the layout of run directories: later versions of the package read this one and those
after it."""
DIGEST = 64  # characters of a checksum
KEPT = 2
"""Checkpoints that are kept: the newest, and one before it in case that is damaged."""
LARGEST = 2**31  # bytes
LARGEST_DESCRIPTION = 2**25  # bytes; the largest map fits


def _no_link(path: str, flags: int) -> int:
    """Opens a file itself, never what a link points to, and never waits for a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)


def _digest_of_facts(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _read(path: Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and metadata of a file; a ValueError if it is none of ours."""
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise ValueError(
            f"{kind} {str(path)!r} is no file of at most {LARGEST // 2**30} GiB; not one of ours"
        )
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118 - not a dict
    except (SafetensorError, TypeError, ValueError, OSError) as error:
        raise ValueError(f"{kind} {str(path)!r} is damaged ({error})") from None


class RunDirectory:
    """One training on disk."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.metrics = self.path / "metrics.jsonl"
        self._checkpoints = self.path / "checkpoints"
        self._memory = self.path / "memory.safetensors"
        self._identity: str | None = None
        """Checksum of run.json, which every checkpoint repeats; None before it is known."""
        self._logged = hashlib.sha256()
        """Of the metrics so far."""

    @property
    def exists(self) -> bool:
        return (self.path / "run.json").is_file()

    def create(self, facts: dict[str, Any], memory: dict[str, np.ndarray] | None = None) -> None:
        """Begin a run, with what was seen of its environment: its description is written last, so
        that a directory without one holds nothing."""
        if self.checkpoints():
            raise ValueError(
                f"{str(self.path)!r} holds checkpoints and no run.json; restore that file, or give "
                "another out (--out)"
            )
        facts = {"format": FORMAT, **facts}
        self._identity = _digest_of_facts(facts)
        with self._writing():
            self._checkpoints.mkdir(parents=True, exist_ok=True)
            self._clear()
            write_atomically(self.metrics, b"")
            if memory:
                write_atomically(self._memory, to_bytes(memory))
            data = json.dumps({**facts, "sha256": self._identity}, indent=1)
            write_atomically(self.path / "run.json", data.encode())

    def facts(self) -> dict[str, Any]:
        """The run's description."""
        path = self.path / "run.json"
        if not path.is_file():
            raise ValueError(
                f"{str(self.path)!r} is not a run: it has no run.json; give the directory of a "
                "training"
            )
        if path.stat().st_size > LARGEST_DESCRIPTION:
            raise ValueError(
                f"{str(path)!r} is larger than {LARGEST_DESCRIPTION // 2**20} MiB; it is not one "
                "of ours"
            )
        try:
            facts = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            raise ValueError(
                f"{str(path)!r} is damaged; train again, or restore the file"
            ) from None
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ValueError(
                f"{str(path)!r} is not of the format that this version reads ({FORMAT}); update "
                "empowerment"
            )
        self._identity = facts.pop("sha256", None)
        if self._identity != _digest_of_facts(facts):
            raise ValueError(
                f"{str(path)!r} is damaged: its checksum does not agree; train again, or restore "
                "the file"
            )
        return facts

    def memory(self) -> dict[str, np.ndarray] | None:
        """What was seen of the run's environment; None where that was not kept."""
        expected = self.facts().get("memory")
        if expected is None:
            return None
        arrays, _ = _read(self._memory, "memory")
        if digest(arrays, "") != expected:
            raise ValueError(
                f"memory {str(self._memory)!r} is damaged: its checksum does not agree; restore "
                "it, or train again"
            )
        return arrays

    def save(self, updates: int, tree: Any) -> None:
        """Write a checkpoint, then forget the oldest."""
        arrays = flatten(tree)
        with self._writing():
            size = self.metrics.stat().st_size
            own = {
                "updates": updates,
                "metrics": size,
                "lines": self._logged.hexdigest(),
                "run": self._identity,
            }
            facts = json.dumps(own)
            # One entry: safetensors writes several in any order, and equal runs are to be equal
            # bytes.
            data = to_bytes(arrays, {"checked": digest(arrays, facts) + facts})
            if len(data) > LARGEST:
                raise ValueError(
                    f"a checkpoint of run {str(self.path)!r} would have {len(data):,} bytes, and "
                    f"at most {LARGEST:,} "
                    "can be read; give smaller networks (hidden, features) or a smaller batch"
                )
            write_atomically(self._checkpoints / f"{updates:08d}.safetensors", data)
            self._forget()

    def _forget(self) -> None:
        for old in self.checkpoints()[KEPT:]:
            old.unlink()

    def checkpoints(self) -> list[Path]:
        """Newest first."""
        return sorted(self._checkpoints.glob("*.safetensors"), reverse=True)

    def read(self, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and facts of one checkpoint; a ValueError if it is damaged."""
        arrays, metadata = _read(path, "checkpoint")
        checked = metadata.get("checked", "")
        facts = checked[DIGEST:]
        if checked[:DIGEST] != digest(arrays, facts):
            raise ValueError(f"checkpoint {str(path)!r} is damaged: its checksum does not agree")
        return arrays, self._own_facts(facts, path)

    def _own_facts(self, text: str, path: Path) -> dict[str, Any]:
        """The facts of a checkpoint of this very run."""
        try:
            facts = json.loads(text)
            sizes = [int(facts[name]) for name in ("updates", "metrics")]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError(
                f"checkpoint {str(path)!r} is damaged: it does not say what it is"
            ) from None
        if min(sizes) < 0 or facts.get("run") != self._identity:
            raise ValueError(f"checkpoint {str(path)!r} belongs to another run")
        return facts

    def newest(
        self, metrics: bool = False
    ) -> tuple[dict[str, np.ndarray], dict[str, Any], list[str]] | None:
        """The newest good checkpoint, with a sentence for each damaged one that was passed over.

        `metrics`: whether the lines before it must be good too, as for a run that resumes.
        """
        complaints = []
        for path in self.checkpoints():
            try:
                arrays, facts = self.read(path)
                if metrics:
                    self._check_metrics(facts)
                return arrays, facts, complaints
            except ValueError as error:
                complaints.append(str(error))
        if complaints:
            raise ValueError(
                f"{complaints[0]}, and nothing good is before it; restore it, or train again"
            )
        return None

    def _check_metrics(self, facts: dict[str, Any]) -> None:
        if not self.metrics.exists():
            return
        data = self._lines(facts["metrics"])
        if len(data) < facts["metrics"] or hashlib.sha256(data).hexdigest() != facts.get("lines"):
            raise ValueError(
                f"{str(self.metrics)!r} is damaged before update {facts['updates']} (delete it to "
                "start the curves again)"
            )

    def _lines(self, size: int) -> bytes:
        """The first bytes of the metrics."""
        if not self.metrics.is_file():
            return b""
        with open(self.metrics, "rb") as file:
            return file.read(min(size, LARGEST))

    def tidy(self, size: int, updates: int) -> None:
        """Drop lines and checkpoints that were written after the one that a run resumes from, which
        were not good, and what a dying process left over."""
        lines = self._lines(size)
        self._logged = hashlib.sha256(lines)
        with self._writing():
            write_atomically(self.metrics, lines)
            self._clear()
            for later in self.checkpoints():
                if later.name > f"{updates:08d}.safetensors":
                    later.unlink()
            self._forget()

    def _clear(self) -> None:
        """Remove what a dying process left half-written."""
        for left in [*self.path.glob(".*.partial"), *self._checkpoints.glob(".*.partial")]:
            left.unlink()

    def log(self, line: dict[str, Any]) -> None:
        """Append to the metrics; the line is on the disk before a checkpoint counts on it."""
        data = (json.dumps(line) + "\n").encode()
        with self._writing(), open(self.metrics, "ab", opener=_no_link) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._logged.update(data)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process writes; a second gets a message that names it."""
        with self._writing():
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / "lock", "a+", opener=_no_link)  # noqa: SIM115 - closed below
        with lock as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                owner = file.read(20).strip() or "(which has just begun)"
                raise ValueError(
                    f"run {str(self.path)!r} is being written by process {owner}; wait for it, or "
                    "choose another --out"
                ) from None
            with self._writing():
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn file-system errors into a ValueError with one sentence."""
        try:
            yield
        except (FileExistsError, NotADirectoryError) as error:
            where = str(error.filename or self.path)
            raise ValueError(
                f"{where!r} is, or lies in, what is no directory; choose another --out"
            ) from None
        except OSError as error:
            raise ValueError(
                f"run {str(self.path)!r} cannot be written ({error.strerror or error}); the last "
                "checkpoint stands: "
                "make room or give write access, then continue with resume (--resume)"
            ) from error
