"""Files that are written all or nothing."""

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """All or nothing: temporary file, flush, rename. What fails leaves nothing behind; several may
    write the same."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def refuse_unwritable(directory: Path) -> None:
    """A ValueError before any work is done for a directory that cannot be made or written to;
    nothing is created."""
    there = next(
        path for path in (directory, *directory.absolute().parents) if os.path.lexists(path)
    )
    if not there.is_dir():
        raise ValueError(
            f"{str(directory)!r} is, or lies in, a file where a directory is needed "
            f"({str(there)!r}); choose another "
            "directory (--out)"
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(
            f"{str(directory)!r} cannot be written: no permission in {str(there)!r}; choose "
            "another directory (--out)"
        )
