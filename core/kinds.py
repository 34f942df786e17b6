"""The kinds of results: a number of each, which is part of every identity, and the packages that make it.

An identity covers resolved settings, the digests of the inputs and the number of the kind, and no code. The commit that
changes the frozen values of a kind (`tests.frozen`) raises its number, so that its results are made again.
"""

from dataclasses import dataclass
from typing import Any

from core.code_digest import SHORT_DIGEST, code_digest, identity


@dataclass(frozen=True)
class Kind:
    """A kind of results."""

    name: str
    number: int
    packages: tuple[str, ...]

    def identity(self, *parts: Any) -> str:
        """sha256 over ``parts`` (settings and digests of inputs, JSON values) and the number."""
        return identity(self.name, self.number, *parts)

    def code_digest(self) -> str:
        """sha256 over the code of the packages, which says what made a result and decides nothing."""
        return code_digest(*self.packages)

    @property
    def code_version(self) -> str:
        """`code_digest`, short enough for people."""
        return self.code_digest()[:SHORT_DIGEST]

    def reused(self, what: object, maker: str) -> str | None:
        """The line on a result that is reused although other code, of the digest ``maker``, made it; else None."""
        present = self.code_digest()
        if present.startswith(maker):
            return None
        return (
            f"{what}: reused; other code made it ({maker[:SHORT_DIGEST]}, now {present[:SHORT_DIGEST]}) with the same "
            f"number of its results ({self.name} {self.number}); --force makes it again"
        )


PREPARED = Kind("prepared", 6, ("targets", "grading", "core"))
GRADED = Kind("graded", 5, ("evaluation", "grading", "core"))
POLICY = Kind("policy", 6, ("training", "grading", "core"))
