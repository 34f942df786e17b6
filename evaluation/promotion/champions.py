"""The records of policies and of the decisions about them, and the folder on disk that names the champion."""

import getpass
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import ValidationError

from core.code_digest import SHORT_DIGEST
from core.errors import InputError, explain_validation
from core.files import write_text
from core.model.lineage_file import MANIFEST, parse_manifest, read_manifest
from evaluation.promotion.records import Checkpoint, Decision, ErrorBudget, PolicyRecord, PromotionLimits, ScoreFile

POINTER = "champion.json"
DECISIONS = "decisions"
LOCK_SECONDS = 600.0  # a decision searches the targets for benchmark problems


class Registry:
    """The folder with the champion's file, ``champion.json``, and every decision, ``decisions/<time>-<digest>.json``.

    The champion's file is replaced at once: a reader finds the old record or the new one, never a part. Whoever moves
    the champion, or removes outputs, holds the registry from the look at the champion to the last write. Without the
    champion's file the last promotion names the champion, and the records of a storage that was moved name its files
    where they are.
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
        """Return the champion's record; None if there is none yet."""
        if self.pointer.exists():
            return self._read(self.pointer)
        return next(reversed(self._promotions()), None)

    def champions(self, last: int) -> list[PolicyRecord]:
        """Return the champion, and the records of the ``last`` policies that were promoted and not rolled back."""
        champion = self.champion()
        promoted: dict[str, PolicyRecord] = {}
        for record in reversed(self._promotions()):
            if champion is None or record.checkpoint not in champion.rejected:
                promoted.setdefault(record.checkpoint, record)
        return [*([champion] if champion else []), *list(promoted.values())[:last]]

    def comparable_champion(self, policy: Checkpoint) -> PolicyRecord | None:
        """Return the champion if it is another model than ``policy`` and was scored on the same problems."""
        champion = self.champion()
        if champion is None or champion.checkpoint == policy.digest or missing_scores(champion.scores, policy.scores):
            return None
        return champion

    def error_budget(self, error_rate: float) -> ErrorBudget:
        """Return what all comparisons so far have left of ``error_rate``."""
        tests = self._tests().values()
        return ErrorBudget(error_rate - sum(level for level, promoted in tests if not promoted), len(tests))

    def _tests(self) -> dict[str, tuple[float, bool]]:
        """Return the level of each comparison, and whether it promoted, by its identity."""
        tests: dict[str, tuple[float, bool]] = {}
        for decision in (record.decision for record in self.decisions()):
            if decision.test is not None and decision.level is not None:
                level, promoted = tests.get(decision.test, (decision.level, False))
                tests[decision.test] = level, promoted or decision.promoted
        return tests

    def level(self, test: str, error_rate: float) -> float:
        """Return the level of a comparison: of its first decision, or else of the next one.

        Raises:
            InputError: the error rate is spent.
        """
        level, _ = self._tests().get(test) or (self.error_budget(error_rate).level, False)
        if level <= 0:
            raise InputError(
                f"promotion.error_rate: the comparisons in {self.folder / DECISIONS} have spent more than "
                f"{error_rate:g}; raise it, or promote by hand"
            )
        return level

    def is_new(self, test: str) -> bool:
        """Return whether no decision has spent the level of ``test`` yet."""
        return test not in self._tests()

    def best_above_base(self, base: str) -> dict[str, float]:
        """Return by how much the best champion was surely above ``base`` on each benchmark out of domain; at least 0.

        What is sure counts, because the best of many measurements is one that happened to be high.
        """
        best: dict[str, float] = {}
        for record in self._promotions():
            if record.base == base:
                for name, gain in record.decision.surely_above_base.items():
                    best[name] = max(gain, best.get(name, 0.0))
        return best

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
        """Record the decision that ``compare`` takes on ``policy`` and the present champion, and carry it out.

        Returns:
            The record of the decision, the champion's after it (None: there is none), and the decision's file.
        """
        with self.locked():
            current = self._with_its_file()
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

    def _with_its_file(self) -> PolicyRecord | None:
        """Return the champion, after writing its file if that is missing."""
        champion = self.champion()
        if champion and not self.pointer.exists():
            self._write(champion)
        return champion

    def _write(self, record: PolicyRecord) -> Path:
        """Keep ``record`` as a decision and, if it is a promotion, as the champion's; the decision's file."""
        time = datetime.fromisoformat(record.time)
        file = self.folder / DECISIONS / f"{time:%Y%m%dT%H%M%S%f}-{record.checkpoint[:SHORT_DIGEST]}.json"
        for path in [file, *([self.pointer] if record.decision.promoted else [])]:
            write_text(record.model_dump_json(indent=2) + "\n", path)
        return file

    def _read(self, file: Path) -> PolicyRecord:
        try:
            record = PolicyRecord.model_validate_json(file.read_bytes())
        except ValidationError as error:
            raise InputError(
                f"{file}: not a decision: {explain_validation(error, PolicyRecord)}; restore it, the champion's from "
                f"{DECISIONS}"
            ) from error
        policy, here = Path(record.policy), self._storage
        if policy.resolve().is_relative_to(here.resolve()):
            return record
        roots = (root for root in reversed(policy.parents) if (here / policy.relative_to(root)).exists())
        before = next(roots, None)
        return record.moved(before, here) if before else record

    def decisions(self) -> list[PolicyRecord]:
        """Return all decisions, oldest first."""
        return [self._read(file) for file in sorted((self.folder / DECISIONS).glob("*.json"))]

    def promote(self, policy: str, *, reason: str) -> PolicyRecord:
        """Make a policy the champion by hand; its record.

        Args:
            policy: A run's folder, or the first characters of a policy's digest.
        """
        with self.locked():
            folder, digest = self._find(policy)
            current = self._with_its_file()
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
                decision=_by_hand("promote", reason, earlier),
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
            current = self._with_its_file()
            if current is None:
                raise InputError(f"{self.pointer}: there is no champion yet, so there is nothing to roll back")
            earlier = self._predecessor(current)
            self._check_present(earlier)
            record = earlier.model_copy(
                update={
                    "scores": _present(earlier.scores),
                    "rejected": sorted({*current.rejected, current.checkpoint}),
                    "decision": _by_hand("rollback", reason, earlier),
                    "replaced": current.checkpoint,
                    "time": now(),
                }
            )
            self._write(record)
        return record

    def _check_present(self, earlier: PolicyRecord) -> None:
        """Raise InputError unless the folder of an earlier champion holds that policy."""
        try:
            if read_manifest(Path(earlier.policy)).checkpoint_digest == earlier.checkpoint:
                return
            problem = "another policy is there"
        except InputError as error:
            problem = str(error) if Path(earlier.policy).is_dir() else "no such folder"
        raise InputError(
            f"{earlier.policy}: expected the policy {earlier.checkpoint[:SHORT_DIGEST]}, which was the champion before "
            f"({problem}); restore it, or promote another policy"
        )

    def _predecessor(self, champion: PolicyRecord) -> PolicyRecord:
        """Return the last champion before ``champion`` that was not rolled back; InputError if there is none."""
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
        """Find folder and digest of the policy that ``name`` stands for; InputError unless it is exactly one."""
        if name and (folder := Path(name).expanduser()).is_dir():
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
    """Return the benchmarks of ``scores`` that ``opponent`` answered in another way, or that lost their file."""
    return [name for name, score in scores.items() if not _is_like(opponent.get(name), score)]


def _is_like(opponent: ScoreFile | None, score: ScoreFile) -> bool:
    return (
        opponent is not None
        and (opponent.problems, opponent.sequential) == (score.problems, score.sequential)
        and Path(opponent.file).exists()
    )


def _present(scores: Mapping[str, ScoreFile]) -> dict[str, ScoreFile]:
    """Return the ``scores`` that still have their file after retention."""
    return {name: score for name, score in scores.items() if Path(score.file).exists()}


def now() -> str:
    """Return the time of a decision."""
    return datetime.now(UTC).isoformat()


def _by_hand(action: Literal["promote", "rollback"], reason: str, earlier: PolicyRecord | None) -> Decision:
    measured = earlier.decision.model_dump(include={"above_base", "surely_above_base"}) if earlier else {}
    return Decision(promoted=True, by_hand=action, reasons=[reason], by=getpass.getuser(), **measured)
