"""Whether a policy becomes the champion, the file that names the champion, and moving it by hand."""

import getpass
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.code import SHORT_DIGEST
from core.errors import InputError, explain_validation
from core.files import atomic_write
from core.manifest import MANIFEST, read_manifest
from evaluation.benchmarks.registry import Benchmark

if TYPE_CHECKING:
    import pyarrow as pa

POINTER = "champion.json"
DECISIONS = "decisions"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScoreFile(_Record):
    """The GRADED file of one benchmark, and the digest of the problems that it answers."""

    file: str
    problems: str


class Checkpoint(_Record):
    """A model with its scores by benchmark."""

    path: str
    digest: str
    scores: dict[str, ScoreFile]


class PromotionLimits(BaseModel):
    """How much a new champion may be worse in."""

    max_ood_drop: float = Field(
        default=0.05, ge=0, le=1, description="Largest loss on an out-of-domain benchmark, as a share of the samples."
    )
    max_truncated: float = Field(
        default=0.25, ge=0, le=1, description="Largest share of samples cut at the token limit."
    )


class Decision(_Record):
    """An outcome with every number behind it, or a move by hand."""

    promoted: bool
    reasons: list[str]  # against a promotion, or given by who moved the champion by hand
    against: str | None = None  # digest of the checkpoint that the policy was compared with
    difference: float | None = None  # in-domain average, policy minus opponent; None where nothing was compared
    low: float | None = None  # its 95% interval
    high: float | None = None
    p_values: dict[str, float] = {}  # of each benchmark's difference
    ood: dict[str, float] = {}  # differences out of domain
    truncated: dict[str, float] = {}  # the policy's share by benchmark
    contamination: dict[str, int] | None = None  # benchmark problems among the targets; None: not known
    by_hand: Literal["promote", "rollback"] | None = None
    by: str | None = None  # who moved it by hand


class PolicyRecord(_Record):
    """A policy and the decision about it. The champion's file holds the record of the last promotion."""

    policy: str  # folder
    checkpoint: str  # digest
    scores: dict[str, ScoreFile]
    decision: Decision
    time: str
    base: str | None = None  # digest
    scorecard: str | None = None  # folder
    limits: PromotionLimits | None = None
    previous: str | None = None  # digest of the champion before
    rejected: list[str] = []  # digests of policies that were rolled back
    replaced: str | None = None  # digest of the champion that a rollback removed
    dagster_run: str | None = None

    def files(self) -> list[str]:
        """Every path that the record names."""
        return [self.policy, *([self.scorecard] if self.scorecard else []), *(s.file for s in self.scores.values())]


def consider(
    policy: Checkpoint,
    base: Checkpoint,
    champion: PolicyRecord | None,
    *,
    suite: Sequence[Benchmark],
    problems: "pa.Table",
    limits: PromotionLimits,
) -> Decision:
    """Decide on ``policy``: compared with the champion, or with ``base`` where there is no champion yet.

    Args:
        problems: The suite's BENCHMARK rows, which must not be among the targets of the policy.
    """
    from evaluation.tables import read_scores
    from grading.contamination import search_lineage

    if champion and champion.checkpoint == policy.digest:
        return Decision(promoted=False, against=champion.checkpoint, reasons=["it is the champion already"])
    if champion and policy.digest in champion.rejected:
        reason = "it was rolled back by hand; only `make promote` brings it back"
        return Decision(promoted=False, against=champion.checkpoint, reasons=[reason])
    opponent = champion.scores if champion else base.scores
    missing = missing_scores(opponent, policy.scores)
    if champion and missing:
        reason = (
            f"the champion has no scores on these problems of {', '.join(missing)}: nothing to compare with; "
            "score it on this suite, or move champion.json away to start from the base"
        )
        return Decision(promoted=False, against=champion.checkpoint, reasons=[reason])
    found = search_lineage(read_manifest(Path(policy.path)).to_json(), problems)
    return decide(
        read_scores({name: opponent[name].file for name in policy.scores}),
        read_scores({name: score.file for name, score in policy.scores.items()}),
        suite=suite,
        limits=limits,
        contamination=None if found is None else {name: found.by_benchmark().get(name, 0) for name in policy.scores},
    )


def missing_scores(opponent: Mapping[str, ScoreFile], scores: Mapping[str, ScoreFile]) -> list[str]:
    """Benchmarks of ``scores`` that ``opponent`` has not answered with the same problems, or whose file is gone."""
    return [
        name
        for name, score in scores.items()
        if name not in opponent or opponent[name].problems != score.problems or not Path(opponent[name].file).exists()
    ]


def decide(
    opponent: "Mapping[str, pa.Table]",
    policy: "Mapping[str, pa.Table]",
    *,
    suite: Sequence[Benchmark],
    limits: PromotionLimits,
    contamination: Mapping[str, int] | None,
) -> Decision:
    """Compare GRADED tables of the policy with its opponent's on the same problems.

    The policy is promoted when its average in-domain difference is above zero beyond chance (95%), no out-of-domain
    benchmark lost more than ``limits.max_ood_drop``, no benchmark was cut at the token limit more often than
    ``limits.max_truncated``, and none of the suite's problems is among the targets that it was trained on.

    Args:
        contamination: Problems found among those targets, by benchmark. None where the targets are gone, which is a
            reason against the promotion too.
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
        f"{name}: {100 * drop:+.1f} points out of domain, more than {100 * limits.max_ood_drop:.1f} down"
        for name, drop in ood.items()
        if drop < -limits.max_ood_drop
    ]
    reasons += [
        f"{name}: {share:.0%} of the samples cut at the token limit, more than {limits.max_truncated:.0%}"
        for name, share in truncated.items()
        if share > limits.max_truncated
    ]
    if contamination is None:
        reasons.append(
            "the targets that the policy was trained on are gone, so they cannot be searched for benchmark problems"
        )
    else:
        reasons += [f"{name}: {n} problems are among the training targets" for name, n in contamination.items() if n]
    return Decision(
        promoted=not reasons,
        against=card.base,
        reasons=reasons,
        difference=main.difference,
        low=main.low,
        high=main.high,
        p_values={row.name: row.difference.p_value for row in card.rows},
        ood=ood,
        truncated=truncated,
        contamination=None if contamination is None else dict(contamination),
    )


class Registry:
    """The folder with the champion's file, ``champion.json``, and every decision, ``decisions/<time>-<digest>.json``.

    The champion's file is replaced at once: a reader finds the old record or the new one, never a part.
    """

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self.folder = storage / "registry"
        self.pointer = self.folder / POINTER

    def champion(self) -> PolicyRecord | None:
        """The champion's record; None if there is none yet."""
        return _read(self.pointer) if self.pointer.exists() else None

    def champions(self, last: int) -> list[PolicyRecord]:
        """The champion, and the records of the ``last`` promotions."""
        champion = self.champion()
        return [*([champion] if champion else []), *self._promotions()[-last:]]

    def comparable_champion(self, policy: Checkpoint) -> PolicyRecord | None:
        """The champion if it is another model than ``policy`` and was scored on the same problems."""
        champion = self.champion()
        if champion is None or champion.checkpoint == policy.digest or missing_scores(champion.scores, policy.scores):
            return None
        return champion

    def write(self, record: PolicyRecord) -> Path:
        """Keep ``record`` as a decision and, if it is a promotion, as the champion's; the decision's file."""
        time = datetime.fromisoformat(record.time)
        file = self.folder / DECISIONS / f"{time:%Y%m%dT%H%M%S%f}-{record.checkpoint[:SHORT_DIGEST]}.json"
        for path in [file, *([self.pointer] if record.decision.promoted else [])]:
            with atomic_write(path) as temporary:
                temporary.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return file

    def decisions(self) -> list[PolicyRecord]:
        """All decisions, oldest first."""
        return [_read(file) for file in sorted((self.folder / DECISIONS).glob("*"))]

    def promote(self, policy: str, *, reason: str) -> PolicyRecord:
        """Make a policy the champion by hand; its record.

        Args:
            policy: A run's folder, or the first characters of a policy's digest.
        """
        folder, digest = self._find(policy)
        current = self.champion()
        if current and current.checkpoint == digest:
            raise InputError(f"{digest[:SHORT_DIGEST]} is the champion already")
        earlier = next((record for record in reversed(self.decisions()) if record.checkpoint == digest), None)
        record = PolicyRecord(
            policy=str(folder),
            checkpoint=digest,
            base=earlier.base if earlier else None,
            scorecard=earlier.scorecard if earlier else None,
            scores=earlier.scores if earlier else {},
            decision=_by_hand("promote", reason),
            previous=current.checkpoint if current else None,
            rejected=[other for other in current.rejected if other != digest] if current else [],
            time=now(),
        )
        self.write(record)
        return record

    def rollback(self, *, reason: str) -> PolicyRecord:
        """Make the champion's predecessor the champion again; its record.

        The champion that goes is rejected from then on: only a promotion by hand brings it back.
        """
        current = self.champion()
        if current is None:
            raise InputError(f"{self.pointer}: there is no champion yet, so there is nothing to go back to")
        if current.previous is None:
            raise InputError(
                f"{current.checkpoint[:SHORT_DIGEST]} is the first champion: there is no earlier one to go back to; "
                "promote another policy"
            )
        earlier = [record for record in self._promotions() if record.checkpoint == current.previous]
        if not earlier:
            raise InputError(
                f"{self.folder / DECISIONS}: no decision made {current.previous[:SHORT_DIGEST]} champion; promote one"
            )
        read_manifest(Path(earlier[-1].policy))
        record = earlier[-1].model_copy(
            update={
                "rejected": sorted({*current.rejected, current.checkpoint}),
                "decision": _by_hand("rollback", reason),
                "replaced": current.checkpoint,
                "time": now(),
            }
        )
        self.write(record)
        return record

    def _promotions(self) -> list[PolicyRecord]:
        return [record for record in self.decisions() if record.decision.promoted]

    def _find(self, name: str) -> tuple[Path, str]:
        """Folder and digest of the policy that ``name`` stands for; InputError unless it is exactly one."""
        if (folder := Path(name).expanduser()).is_dir():
            policy = (folder if (folder / MANIFEST).is_file() else folder / "policy").resolve()
            if not policy.is_relative_to(self._storage.resolve()):
                raise InputError(f"{name}: outside of storage {self._storage}; a champion is one of its policies")
            return policy, read_manifest(policy).checkpoint_digest
        runs = self._storage / "training" / "policy"
        matches = {}
        for manifest in sorted(runs.glob(f"*/policy/{MANIFEST}")):
            digest = json.loads(manifest.read_text(encoding="utf-8"))["checkpoint_digest"]
            if len(name) >= 4 and digest.startswith(name):
                matches[digest] = manifest.parent
        if len(matches) != 1:
            what = "names several policies" if matches else "is neither a run's folder nor the digest of a policy"
            raise InputError(f"{name!r} {what} in {runs}; expected four characters or more of one digest")
        digest, policy = matches.popitem()
        read_manifest(policy)
        return policy, digest


def now() -> str:
    """The time of a decision."""
    return datetime.now(UTC).isoformat()


def _by_hand(action: Literal["promote", "rollback"], reason: str) -> Decision:
    return Decision(promoted=True, by_hand=action, reasons=[reason], by=getpass.getuser())


def _read(file: Path) -> PolicyRecord:
    try:
        return PolicyRecord.model_validate_json(file.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise InputError(
            f"{file}: not a decision: {explain_validation(error, PolicyRecord)}; restore it, the champion's from "
            f"{DECISIONS}"
        ) from error
