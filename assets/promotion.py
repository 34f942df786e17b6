"""Whether a policy becomes the champion, and the file that names the champion."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.benchmarks import Benchmark
from evaluation.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Decision:
    """The outcome with every number behind it; ``reasons`` against a promotion are empty where ``promoted``."""

    promoted: bool
    against: str  # digest of the checkpoint that the policy was compared with
    reasons: tuple[str, ...]
    difference: float  # in-domain average, policy minus opponent
    low: float  # its 95% interval
    high: float
    ood: Mapping[str, float]  # differences out of domain
    truncated: Mapping[str, float]  # the policy's share by benchmark


def decide(
    opponent: "Mapping[str, pa.Table]",
    policy: "Mapping[str, pa.Table]",
    *,
    suite: Sequence[Benchmark],
    max_ood_drop: float,
    max_truncated: float,
) -> Decision:
    """Compare GRADED tables of the policy with its opponent's on the same problems.

    The policy is promoted when its average in-domain difference is above zero beyond chance (95%), no out-of-domain
    benchmark lost more than ``max_ood_drop``, and no benchmark was cut at the token limit more than ``max_truncated``.
    """
    from evaluation.report import build_scorecard

    card = build_scorecard(opponent, policy, suite=suite)
    averages = {average.group: average for average in card.averages}
    if "evals" not in averages:
        raise InputError("the suite has no in-domain benchmark (group evals), on which a champion is chosen")
    main = averages["evals"]
    ood = {row.name: row.difference.mean for row in card.rows if row.group == "ood"}
    truncated = {row.name: row.policy.truncated for row in card.rows}
    reasons = []
    if main.low <= 0:
        reasons.append(
            f"in-domain difference {100 * main.difference:+.1f} points, 95% interval [{100 * main.low:+.1f}, "
            f"{100 * main.high:+.1f}]: not above zero beyond chance"
        )
    reasons += [
        f"{name}: {100 * drop:+.1f} points out of domain, more than {100 * max_ood_drop:.1f} down"
        for name, drop in ood.items()
        if drop < -max_ood_drop
    ]
    reasons += [
        f"{name}: {share:.0%} of the samples cut at the token limit, more than {max_truncated:.0%}"
        for name, share in truncated.items()
        if share > max_truncated
    ]
    return Decision(
        promoted=not reasons,
        against=card.base,
        reasons=tuple(reasons),
        difference=main.difference,
        low=main.low,
        high=main.high,
        ood=ood,
        truncated=truncated,
    )


def read_champion(file: Path) -> dict[str, Any] | None:
    """The current champion's record, None if there is none yet."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"{file}: not JSON ({error}); restore it from {file.parent / 'decisions'}") from error


def to_record(decision: Decision) -> dict[str, Any]:
    """A decision as JSON values."""
    return asdict(decision)
