"""Numbers that are random, and the same wherever and whenever they are drawn."""

from core.files import digest_bytes

HASHES = 2**60  # values of stable_hash


def stable_hash(*parts: int | str) -> int:
    """A number below ``HASHES`` that is the same for equal ``parts`` on every machine, rank and restart."""
    return int(digest_bytes(repr(parts).encode())[:15], 16)
