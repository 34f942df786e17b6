"""Resource limits for processes that read untrusted input."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


def limit(what: int, most: int) -> None:
    """Lower a soft limit; a hard limit (``ulimit -v`` or ``-t`` on clusters) still applies."""
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def limit_memory(more: int) -> None:
    """Let this process allocate ``more`` bytes of address space; further requests raise MemoryError."""
    limit(resource.RLIMIT_AS, address_space() + more)


@contextmanager
def memory_limit(more: int) -> Iterator[None]:
    """Apply `limit_memory` inside the block only, because handling a MemoryError needs memory, too."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit_memory(more)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def address_space() -> int:
    """Return the size of this process's address space in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
