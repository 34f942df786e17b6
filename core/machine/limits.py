"""Limits of this process, for the processes that read what a stranger wrote."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


def limit(what: int, most: int) -> None:
    """Lower a soft limit, within a hard one that somebody may have set (``ulimit -v`` and ``-t`` on clusters)."""
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def limit_memory(more: int) -> None:
    """Let this process have ``more`` bytes of address space beside what it has; further requests are MemoryErrors."""
    limit(resource.RLIMIT_AS, address_space() + more)


@contextmanager
def memory_limit(more: int) -> Iterator[None]:
    """`limit_memory` within the block: what handles the MemoryError needs memory, too."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit_memory(more)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def address_space() -> int:
    """Bytes of this process's address space."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
