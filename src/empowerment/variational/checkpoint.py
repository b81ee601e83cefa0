"""Run directories: JSON and safetensors only, consistent at every instant; nothing in them is ever executed.

run.json                        format, world, configuration, seed, versions
metrics.jsonl                   one line for each chunk of updates
checkpoints/00001500.safetensors    everything carried on, with a checksum over all of it
lock                            who is writing
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

FORMAT = 1
KEPT = 2
"""Checkpoints that are kept: the newest, and one before it in case that is damaged."""
LARGEST = 2**31  # bytes


def write_atomically(path: Path, data: bytes) -> None:
    """All or nothing: temporary file, flush, rename."""
    temporary = path.with_name(f".{path.name}.partial")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by the names of their places; random keys as their data."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    out = {}
    for path, leaf in leaves:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        out[jax.tree_util.keystr(path, simple=True, separator="/")] = np.asarray(leaf)
    return out


def unflatten(like: Any, arrays: dict[str, np.ndarray], source: str) -> Any:
    """A pytree of the same structure as `like`, with these arrays; names, shapes and types must agree."""
    expected = flatten(like)
    if set(expected) != set(arrays):
        odd = sorted(set(expected) ^ set(arrays))[0]
        raise ValueError(f"{source} does not fit its run: {odd!r} is missing or not expected; train anew")
    for name, array in expected.items():
        if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
            raise ValueError(
                f"{source} does not fit its run: {name!r} is {arrays[name].dtype}{arrays[name].shape} and should be "
                f"{array.dtype}{array.shape}; train anew"
            )
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    new = []
    for path, leaf in leaves:
        array = jnp.asarray(arrays[jax.tree_util.keystr(path, simple=True, separator="/")])
        new.append(jax.random.wrap_key_data(array) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else array)
    return jax.tree_util.tree_unflatten(structure, new)


def _digest(arrays: dict[str, np.ndarray], facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


class RunDirectory:
    """One training on disk."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.metrics = self.path / "metrics.jsonl"
        self._checkpoints = self.path / "checkpoints"

    @property
    def exists(self) -> bool:
        return (self.path / "run.json").is_file()

    def create(self, facts: dict[str, Any]) -> None:
        """Begin a run: its description is written last, so that a directory without one holds nothing."""
        self._checkpoints.mkdir(parents=True, exist_ok=True)
        for old in self._checkpoints.glob("*.safetensors"):
            old.unlink()
        write_atomically(self.metrics, b"")
        write_atomically(self.path / "run.json", json.dumps({"format": FORMAT, **facts}, indent=1).encode())

    def facts(self) -> dict[str, Any]:
        """The run's description."""
        path = self.path / "run.json"
        if not path.is_file():
            raise ValueError(f"{str(self.path)!r} is not a run: it has no run.json; give the directory of a training")
        try:
            facts = json.loads(path.read_bytes())
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise ValueError(f"{str(path)!r} is damaged; train anew, or restore the file") from None
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ValueError(f"{str(path)!r} is not of a format that this version reads ({FORMAT}); update empowerment")
        return facts

    def save(self, updates: int, tree: Any) -> None:
        """Write a checkpoint, then forget the oldest."""
        arrays = flatten(tree)
        facts = json.dumps({"updates": updates, "metrics": self.metrics.stat().st_size})
        data = to_bytes(arrays, {"facts": facts, "sha256": _digest(arrays, facts)})
        write_atomically(self._checkpoints / f"{updates:08d}.safetensors", data)
        for old in sorted(self._checkpoints.glob("*.safetensors"))[:-KEPT]:
            old.unlink()

    def checkpoints(self) -> list[Path]:
        """Newest first."""
        return sorted(self._checkpoints.glob("*.safetensors"), reverse=True)

    def read(self, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and facts of one checkpoint; a ValueError if it is damaged."""
        if path.stat().st_size > LARGEST:
            raise ValueError(f"checkpoint {str(path)!r} is larger than {LARGEST // 2**30} GiB; it is not one of ours")
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        except SafetensorError as error:
            raise ValueError(f"checkpoint {str(path)!r} is damaged ({error})") from None
        if metadata.get("sha256") != _digest(arrays, metadata.get("facts", "")):
            raise ValueError(f"checkpoint {str(path)!r} is damaged: its checksum does not agree")
        return arrays, json.loads(metadata["facts"])

    def newest(self) -> tuple[dict[str, np.ndarray], dict[str, Any], list[str]] | None:
        """The newest good checkpoint, with a sentence for each damaged one that was passed over."""
        complaints = []
        for path in self.checkpoints():
            try:
                return (*self.read(path), complaints)
            except ValueError as error:
                complaints.append(str(error))
        if complaints:
            raise ValueError(f"{complaints[0]}, and there is no good one before it; train anew")
        return None

    def truncate_metrics(self, size: int) -> None:
        """Drop lines written after the checkpoint that a run goes on from."""
        write_atomically(self.metrics, self.metrics.read_bytes()[:size] if self.metrics.exists() else b"")

    def log(self, line: dict[str, Any]) -> None:
        with open(self.metrics, "a") as file:
            file.write(json.dumps(line) + "\n")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process writes; a second is told which one does."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / "lock", "a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                owner = file.read().strip() or "another process"
                raise ValueError(
                    f"run {str(self.path)!r} is being written by process {owner}; wait for it, or choose another --out"
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield
