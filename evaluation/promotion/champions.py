"""The records of policies and of the decisions about them, and the folder on disk that names the champion."""

import getpass
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.code_digest import SHORT_DIGEST
from core.errors import InputError, explain_validation
from core.files import write_text
from core.model.manifest import MANIFEST, parse_manifest, read_manifest

POINTER = "champion.json"
DECISIONS = "decisions"
LOCK_SECONDS = 600.0  # a decision searches the targets for benchmark problems


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


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


class Registry:
    """The folder with the champion's file, ``champion.json``, and every decision, ``decisions/<time>-<digest>.json``.

    The champion's file is replaced at once: a reader finds the old record or the new one, never a part. Whoever moves
    the champion, or removes outputs, holds the registry from the look at the champion to the last write.
    """

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self.folder = storage / "registry"
        self.pointer = self.folder / POINTER
        self._lock = FileLock(self.folder / ".lock", timeout=LOCK_SECONDS)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the registry; InputError if another process holds it for longer than `LOCK_SECONDS`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except Timeout:
            raise InputError(
                f"{self.folder}: a decision, a promotion or a retention holds it for more than {LOCK_SECONDS:.0f} s: "
                "wait until it ends and try again"
            ) from None
        try:
            yield
        finally:
            self._lock.release()

    def champion(self) -> PolicyRecord | None:
        """The champion's record; None if there is none yet."""
        return _read(self.pointer) if self.pointer.exists() else None

    def champions(self, last: int) -> list[PolicyRecord]:
        """The champion, and the records of the ``last`` policies that were promoted."""
        champion = self.champion()
        promoted: dict[str, PolicyRecord] = {}
        for record in reversed(self._promotions()):
            promoted.setdefault(record.checkpoint, record)
        return [*([champion] if champion else []), *list(promoted.values())[:last]]

    def comparable_champion(self, policy: Checkpoint) -> PolicyRecord | None:
        """The champion if it is another model than ``policy`` and was scored on the same problems."""
        champion = self.champion()
        if champion is None or champion.checkpoint == policy.digest or missing_scores(champion.scores, policy.scores):
            return None
        return champion

    def record_decision(
        self,
        policy: Checkpoint,
        compare: Callable[[PolicyRecord | None], Decision],
        *,
        base: str,
        scorecard: str,
        limits: PromotionLimits,
        dagster_run: str,
    ) -> tuple[PolicyRecord, PolicyRecord | None, Path]:
        """Keep the decision that ``compare`` takes on ``policy`` beside the present champion, and carry it out.

        Returns:
            The record of the decision, the champion's after it (None: there is none), and the decision's file.
        """
        with self.locked():
            current = self.champion()
            decision = compare(current)
            record = PolicyRecord(
                policy=policy.path,
                checkpoint=policy.digest,
                base=base,
                scorecard=scorecard,
                scores=policy.scores,
                decision=decision,
                limits=limits,
                previous=current.checkpoint if current else None,
                rejected=current.rejected if current else [],
                dagster_run=dagster_run,
                time=now(),
            )
            file = self._write(record)
        return record, record if decision.promoted else current, file

    def _write(self, record: PolicyRecord) -> Path:
        """Keep ``record`` as a decision and, if it is a promotion, as the champion's; the decision's file."""
        time = datetime.fromisoformat(record.time)
        file = self.folder / DECISIONS / f"{time:%Y%m%dT%H%M%S%f}-{record.checkpoint[:SHORT_DIGEST]}.json"
        for path in [file, *([self.pointer] if record.decision.promoted else [])]:
            write_text(record.model_dump_json(indent=2) + "\n", path)
        return file

    def decisions(self) -> list[PolicyRecord]:
        """All decisions, oldest first."""
        return [_read(file) for file in sorted((self.folder / DECISIONS).glob("*.json"))]

    def promote(self, policy: str, *, reason: str) -> PolicyRecord:
        """Make a policy the champion by hand; its record.

        Args:
            policy: A run's folder, or the first characters of a policy's digest.
        """
        with self.locked():
            folder, digest = self._find(policy)
            current = self.champion()
            if current and current.checkpoint == digest:
                raise InputError(f"{digest[:SHORT_DIGEST]} is already the champion")
            earlier = next((record for record in reversed(self.decisions()) if record.checkpoint == digest), None)
            record = PolicyRecord(
                policy=str(folder),
                checkpoint=digest,
                base=earlier.base if earlier else None,
                scorecard=earlier.scorecard
                if earlier and earlier.scorecard and Path(earlier.scorecard).is_dir()
                else None,
                scores=_present(earlier.scores) if earlier else {},
                decision=_by_hand("promote", reason),
                previous=current.checkpoint if current else None,
                rejected=[other for other in current.rejected if other != digest] if current else [],
                time=now(),
            )
            self._write(record)
        return record

    def rollback(self, *, reason: str) -> PolicyRecord:
        """Make the champion's predecessor the champion again; its record.

        The champion that goes is rejected from then on: only a promotion by hand brings it back.
        """
        with self.locked():
            current = self.champion()
            if current is None:
                raise InputError(f"{self.pointer}: there is no champion yet, so there is nothing to roll back")
            earlier = self._predecessor(current)
            if read_manifest(Path(earlier.policy)).checkpoint_digest != earlier.checkpoint:
                raise InputError(
                    f"{earlier.policy}: no longer the policy {earlier.checkpoint[:SHORT_DIGEST]}, which was the "
                    "champion before; promote another policy"
                )
            record = earlier.model_copy(
                update={
                    "scores": _present(earlier.scores),
                    "rejected": sorted({*current.rejected, current.checkpoint}),
                    "decision": _by_hand("rollback", reason),
                    "replaced": current.checkpoint,
                    "time": now(),
                }
            )
            self._write(record)
        return record

    def _predecessor(self, champion: PolicyRecord) -> PolicyRecord:
        """The last champion before ``champion`` that was not rolled back; InputError if there is none."""
        promoted = {record.checkpoint: record for record in self._promotions()}
        passed = {champion.checkpoint}
        digest = champion.previous
        while digest is not None and digest not in passed:
            if digest not in promoted:
                raise InputError(
                    f"{self.folder / DECISIONS}: no decision promoted {digest[:SHORT_DIGEST]}; promote another policy"
                )
            if digest not in champion.rejected:
                return promoted[digest]
            passed.add(digest)
            digest = promoted[digest].previous
        raise InputError(
            f"{champion.checkpoint[:SHORT_DIGEST]} is the first champion, or those before it were rolled back: there "
            "is no earlier one to go back to; promote another policy"
        )

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
            digest = parse_manifest(manifest.parent).checkpoint_digest
            if len(name) >= 4 and digest.startswith(name):
                matches[digest] = manifest.parent
        if len(matches) != 1:
            what = "names several policies" if matches else "is neither a run's folder nor the digest of a policy"
            raise InputError(f"{name!r} {what} in {runs}; expected four characters or more of one digest")
        digest, policy = matches.popitem()
        read_manifest(policy)
        return policy, digest


def missing_scores(opponent: Mapping[str, ScoreFile], scores: Mapping[str, ScoreFile]) -> list[str]:
    """Benchmarks of ``scores`` that ``opponent`` has not answered with the same problems, or whose file is gone."""
    return [
        name
        for name, score in scores.items()
        if name not in opponent or opponent[name].problems != score.problems or not Path(opponent[name].file).exists()
    ]


def _present(scores: Mapping[str, ScoreFile]) -> dict[str, ScoreFile]:
    """Those of ``scores`` whose file a retention has not removed since."""
    return {name: score for name, score in scores.items() if Path(score.file).exists()}


def now() -> str:
    """The time of a decision."""
    return datetime.now(UTC).isoformat()


def _by_hand(action: Literal["promote", "rollback"], reason: str) -> Decision:
    return Decision(promoted=True, by_hand=action, reasons=[reason], by=getpass.getuser())


def _read(file: Path) -> PolicyRecord:
    try:
        return PolicyRecord.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{file}: not a decision: {explain_validation(error, PolicyRecord)}; restore it, the champion's from "
            f"{DECISIONS}"
        ) from error
