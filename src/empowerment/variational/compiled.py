"""Compiled programs are kept between runs, in the user's cache directory: a second training starts
within seconds."""

import contextlib
import os
import sys
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

SWITCH = "EMPOWERMENT_CACHE"
"""Environment variable: another directory, or `off`."""
LARGEST = 2**30
"""Bytes that are kept; beyond them the oldest programs are removed."""
SHORTEST = 0.2
"""Seconds that a program must have taken to compile to be kept."""


def keep_compiled() -> None:
    """Let JAX keep what it compiles, unless the user has chosen a directory for it already or wants
    none.

    Programs for another number of processors are kept apart: they add up in another order, and a
    seed is to give the same numbers whatever was compiled before.
    """
    chosen = os.environ.get(SWITCH, "")
    if chosen == "off" or jax.config.jax_compilation_cache_dir is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return
    directory = Path(chosen or _user_cache()) / f"{jax.__version__}-{_processors()}"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _trim(directory)
    except OSError:  # no home to write to: everything is compiled again, as without a cache
        return
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SHORTEST)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    compilation_cache.reset_cache()  # JAX decides at its first compilation whether there is one


def _user_cache() -> Path:
    home = Path.home()
    base = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or base) / "empowerment"


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _trim(directory: Path) -> None:
    """Remove the oldest files, so that all together take at most `LARGEST` bytes."""
    files = sorted(
        (path for path in directory.iterdir() if path.is_file()), key=lambda p: p.stat().st_mtime
    )
    total = sum(path.stat().st_size for path in files)
    for path in files:
        if total <= LARGEST:
            return
        total -= path.stat().st_size
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
