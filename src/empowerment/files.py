"""Files that are written all or nothing."""

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """All or nothing: temporary file, flush, rename. What fails leaves nothing behind; several may write the same."""
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
