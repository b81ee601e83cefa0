"""How much memory there is, asked before it is taken."""

import contextlib
import os
from pathlib import Path

GIB = 2**30


def available_bytes() -> int:
    """Bytes that this process may still take: what the system, its container and its own limits
    leave."""
    return max(min(_system(), _container(), _address_space()), 0)


def refuse_beyond(needed: int | float, what: str, remedy: str) -> None:
    """A ValueError where more memory is needed than there is."""
    free = available_bytes()
    if needed > free:
        raise ValueError(
            f"{what} needs about {needed / GIB:.1f} GiB of memory, and {free / GIB:.1f} GiB are "
            f"free; {remedy}"
        )


def _system() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(
            1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")
        )
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _container() -> int:
    """What the limit of a container leaves, where one is set (control groups, version 2); files
    that the system only caches do not count."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        group = Path("/sys/fs/cgroup")
        facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        used = int((group / "memory.current").read_text()) - int(facts["inactive_file"])
        return int((group / "memory.max").read_text()) - used
    return 2**62


def _address_space() -> int:
    """What `ulimit -v` leaves."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return 2**62
    used = 0
    with contextlib.suppress(OSError, ValueError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return limit - used
