"""Why does a training fail, or not learn? One table of causes (`causes.CAUSES`), each with when it can be seen.

`machine` tests the machine, `answers`, `rewards` and `updates` test a `record` of a run; `before` makes that record
before a run starts, `live` while it runs, and `report` writes what was found (docs/explain.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# When a cause is looked for: in any Python, because an environment may be missing (`luffy doctor`); in the training
# environment (`luffy train preflight`), with a GPU profile; in targets before a run; in the samples of its first step;
# in its curves after every step; in all that it left (`luffy explain`).
HOST, MACHINE, MACHINE_GPU, BEFORE, FIRST, LIVE, AFTER = (
    "host", "machine", "machine with GPUs", "before", "first", "live", "after",
)  # fmt: skip


@dataclass(frozen=True)
class Cause:
    """A row of the table. Standard library only, because the doctor also runs where packages are missing.

    Attributes:
        name: short, and the anchor of its section in docs/explain.md.
        when: the moments at which it is looked for.
        test: of a machine (`machine.Examination`): returns what it saw, or raises an InputError that says what is
            wrong. Of a run (`record.RunRecord`): returns the `record.Evidence` for the cause, or None.
        keys: what to change.
        title: A sentence that says what is wrong; "" of a machine, whose test says it.
    """

    name: str
    when: tuple[str, ...]
    test: Callable[[Any], Any]
    keys: str
    title: str = ""

    @property
    def link(self) -> str:
        """The section of the documentation."""
        return f"docs/explain.md#{self.name}"
