"""Whether a policy becomes the champion, the file that names the champion, and moving it by hand."""

import getpass
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.code import SHORT_DIGEST
from core.errors import InputError
from core.files import write_json
from core.manifest import MANIFEST, read_manifest
from evaluation.benchmarks.registry import Benchmark

if TYPE_CHECKING:
    import pyarrow as pa

POINTER = "champion.json"
DECISIONS = "decisions"


@dataclass(frozen=True)
class Decision:
    """The outcome with every number behind it; ``reasons`` against a promotion are empty where ``promoted``."""

    promoted: bool
    against: str  # digest of the checkpoint that the policy was compared with
    reasons: tuple[str, ...]
    difference: float | None = None  # in-domain average, policy minus opponent; None where nothing was compared
    low: float | None = None  # its 95% interval
    high: float | None = None
    p_values: Mapping[str, float] = field(default_factory=dict)  # of each benchmark's difference
    ood: Mapping[str, float] = field(default_factory=dict)  # differences out of domain
    truncated: Mapping[str, float] = field(default_factory=dict)  # the policy's share by benchmark
    contamination: Mapping[str, int] | None = None  # benchmark problems among the targets; None: not known


def decide(
    opponent: "Mapping[str, pa.Table]",
    policy: "Mapping[str, pa.Table]",
    *,
    suite: Sequence[Benchmark],
    max_ood_drop: float,
    max_truncated: float,
    contamination: Mapping[str, int] | None,
) -> Decision:
    """Compare GRADED tables of the policy with its opponent's on the same problems.

    The policy is promoted when its average in-domain difference is above zero beyond chance (95%), no out-of-domain
    benchmark lost more than ``max_ood_drop``, no benchmark was cut at the token limit more than ``max_truncated``, and
    none of the suite's problems is among the targets it was trained on (``contamination``: problems found by
    benchmark; None where nobody could look, which refuses too).
    """
    from evaluation.report.scorecard import build_scorecard

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
    if contamination is None:
        reasons.append("the targets that the policy was trained on are gone: nobody can look for the benchmarks in it")
    else:
        reasons += [f"{name}: {n} problems are among the training targets" for name, n in contamination.items() if n]
    return Decision(
        promoted=not reasons,
        against=card.base,
        reasons=tuple(reasons),
        difference=main.difference,
        low=main.low,
        high=main.high,
        p_values={row.name: row.difference.p_value for row in card.rows},
        ood=ood,
        truncated=truncated,
        contamination=contamination,
    )


class Registry:
    """The folder with the champion's file, ``champion.json``, and every decision, ``decisions/<time>-<digest>.json``.

    The champion's file is replaced at once: a reader finds the old record or the new one, never a part.
    """

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self.folder = storage / "registry"
        self.pointer = self.folder / POINTER

    def champion(self) -> dict[str, Any] | None:
        """The champion's record, None if there is none yet."""
        return read_champion(self.pointer)

    def write(self, record: Mapping[str, Any], *, move: bool) -> Path:
        """Keep ``record`` as a decision and, where ``move``, make it the champion's; the decision's file."""
        time = datetime.fromisoformat(record["time"])
        name = f"{time:%Y%m%dT%H%M%S%f}-{record['checkpoint'][:SHORT_DIGEST]}.json"
        file = self.folder / DECISIONS / name
        write_json(record, file)
        if move:
            write_json(record, self.pointer)
        return file

    def decisions(self) -> list[dict[str, Any]]:
        """All decisions, oldest first."""
        return [json.loads(file.read_text(encoding="utf-8")) for file in sorted((self.folder / DECISIONS).glob("*"))]

    def promote(self, wanted: str, *, reason: str) -> dict[str, Any]:
        """Make a policy the champion by hand; its record. ``wanted``: a run's folder, or the start of a digest."""
        policy, digest = self._find(wanted)
        current = self.champion()
        if current and current["checkpoint"] == digest:
            raise InputError(f"{digest[:SHORT_DIGEST]} is the champion already")
        known = next((record for record in reversed(self.decisions()) if record["checkpoint"] == digest), {})
        refused = [old for old in (current or {}).get("refused", []) if old != digest]
        record = {
            **{key: known.get(key) for key in ("base", "scorecard")},
            "scores": known.get("scores", {}),
            "policy": str(policy),
            "checkpoint": digest,
            "previous": current["checkpoint"] if current else None,
            "refused": refused,
            "decision": {"promoted": True, "by_hand": "promote", "reasons": [reason], "by": getpass.getuser()},
            "time": now(),
        }
        self.write(record, move=True)
        return record

    def rollback(self, *, reason: str) -> dict[str, Any]:
        """Make the champion's predecessor the champion again; its record.

        The one that goes is refused from then on: only a promotion by hand brings it back.
        """
        current = self.champion()
        if current is None:
            raise InputError(f"{self.pointer}: there is no champion yet, so nothing to go back to")
        before = current.get("previous")
        if before is None:
            raise InputError(
                f"{current['checkpoint'][:SHORT_DIGEST]} is the first champion: there is no earlier one to go back to; "
                "promote another policy"
            )
        earlier = [record for record in self.decisions() if record["checkpoint"] == before]
        moved = [record for record in earlier if record["decision"]["promoted"]]
        if not moved:
            raise InputError(
                f"{self.folder / DECISIONS}: no decision made {before[:SHORT_DIGEST]} champion; promote one"
            )
        read_manifest(Path(moved[-1]["policy"]))
        record = {
            **moved[-1],
            "refused": sorted({*current.get("refused", []), current["checkpoint"]}),
            "decision": {"promoted": True, "by_hand": "rollback", "reasons": [reason], "by": getpass.getuser()},
            "replaced": current["checkpoint"],
            "time": now(),
        }
        self.write(record, move=True)
        return record

    def _find(self, wanted: str) -> tuple[Path, str]:
        """Folder and digest of the policy that ``wanted`` names; InputError if there is none or more than one."""
        runs = self._storage / "training" / "policy"
        if (folder := Path(wanted).expanduser()).is_dir():
            policy = (folder if (folder / MANIFEST).is_file() else folder / "policy").resolve()
            if not policy.is_relative_to(self._storage.resolve()):
                raise InputError(f"{wanted}: outside of storage {self._storage}; a champion is one of its policies")
            return policy, read_manifest(policy).checkpoint_digest
        found = {}
        for manifest in sorted(runs.glob(f"*/policy/{MANIFEST}")):
            digest = json.loads(manifest.read_text(encoding="utf-8"))["checkpoint_digest"]
            if len(wanted) >= 4 and digest.startswith(wanted):
                found[digest] = manifest.parent
        if len(found) != 1:
            what = "names several policies" if found else "is neither a run's folder nor the digest of a policy"
            raise InputError(f"{wanted!r} {what} in {runs}; expected four characters or more of one digest")
        digest, policy = found.popitem()
        read_manifest(policy)
        return policy, digest


def now() -> str:
    """The time of a decision."""
    return datetime.now(UTC).isoformat()


def read_champion(file: Path) -> dict[str, Any] | None:
    """The current champion's record, None if there is none yet."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"{file}: not JSON ({error}); restore it from {file.parent / DECISIONS}") from error


def to_record(decision: Decision) -> dict[str, Any]:
    """A decision as JSON values."""
    return asdict(decision)
