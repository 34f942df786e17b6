"""Asset checks that gate targets/train: one for each expectation of the suite, and the account of all traces."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.failures import user_errors
from assets.shared.luffy import Luffy, Names
from assets.shared.metadata import cell
from assets.shared.references import TrainReference
from assets.shared.targets_metadata import by_source
from assets.targets import TRAIN
from core import kinds
from core.errors import InputError
from core.files import read_json, write_json
from core.parquet import digest_shards, is_there
from targets.check.expectations import CheckResult, load_checks, summarize, validate

SEVERITY = {"error": dg.AssetCheckSeverity.ERROR, "warning": dg.AssetCheckSeverity.WARN}
RESULTS = "results.json"  # the results of one suite on the same files
VERSION_ENTRY = "data version"  # entry of an evaluation: the version of the asset that it read
BLOCKS_ENTRY = "blocks"  # likewise: whether it blocks, which its severity does not say if training.ignore_checks is set
BATCH = 100  # number of evaluations that are read at once
ACCOUNT = "every_trace_accounted_for"
ACCOUNTED = dg.AssetCheckSpec(
    ACCOUNT,
    asset=TRAIN,
    blocking=True,
    description="Every trace that was read appears exactly once in train, heldout, left_out, or rejected "
    "with its reason.",
)


def check_specs(suite: Path) -> list[dg.AssetCheckSpec]:
    """Return the checks of ``suite``; InputError if one of them has the name of a check that every suite has."""
    checks = load_checks(suite)
    if ACCOUNT in {check.name for check in checks}:
        raise InputError(f"check suite {suite}: {ACCOUNT} is a check that every suite has; give it another name")
    return [
        dg.AssetCheckSpec(
            check.name,
            asset=TRAIN,
            # Dagster's automation waits for a blocking check whose result is only a warning, too.
            blocking=check.severity == "error",
            description=check.description,
            metadata={"severity": check.severity, "expectation": check.type},
        )
        for check in checks
    ]


def check_keys(luffy: Luffy, *, blocking_only: bool = True) -> list[dg.AssetCheckKey]:
    """Return the checks of targets/train: those that block a training, or all."""
    specs = (*check_specs(luffy.checks), ACCOUNTED)
    return [dg.AssetCheckKey(luffy.names.key(TRAIN), spec.name) for spec in specs if spec.blocking or not blocking_only]


@dataclass(frozen=True)
class Verdicts:
    """What the newest evaluations of some checks say about one version of their asset.

    Args:
        failed: What each failed check observed, by its name.
        unevaluated: The checks that were never evaluated on this version.
    """

    failed: Mapping[str, str]
    unevaluated: Sequence[str]

    @property
    def reasons(self) -> list[str]:
        """Why the version does not pass, one sentence per check."""
        never = [f"{name} was never evaluated on this version" for name in self.unevaluated]
        return [*(f"{name} failed: {observed}" for name, observed in self.failed.items()), *never]


def verdicts(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey], version: str) -> Verdicts:
    """Return the newest evaluations of blocking ``checks`` on the data ``version`` of their asset.

    Dagster blocks only what follows a failed check in the same run. An asset that reads the data in a later run has to
    look at the checks itself.
    """
    newest = {key.name: _newest_evaluation(instance, key, version) for key in checks}
    failed = {
        name: evaluation.description or "it gives no reason"
        for name, evaluation in newest.items()
        if evaluation and not evaluation.passed and _blocks(evaluation)
    }
    return Verdicts(failed, [name for name, evaluation in newest.items() if evaluation is None])


def _blocks(evaluation: Any) -> bool:
    """Return whether no training follows a failure, unless `training.ignore_checks` is set."""
    entry = evaluation.metadata.get(BLOCKS_ENTRY)
    return evaluation.severity is dg.AssetCheckSeverity.ERROR or bool(entry and entry.value)


def _newest_evaluation(instance: dg.DagsterInstance, key: dg.AssetCheckKey, version: str) -> Any:
    """Return the newest evaluation of the check that read ``version``, or None."""
    cursor = None
    while records := instance.event_log_storage.get_asset_check_execution_history(key, limit=BATCH, cursor=cursor):
        for record in records:
            evaluation = record.event and record.event.asset_check_evaluation
            entry = evaluation and evaluation.metadata.get(VERSION_ENTRY)
            if entry and entry.value == version:
                return evaluation
        cursor = records[-1].id
    return None


def require_passed(found: Verdicts, *, ignore: bool) -> None:
    """Raise InputError unless the targets of a training passed all of their blocking checks, or ``ignore`` is set."""
    if found.reasons and not ignore:
        raise InputError(
            f"targets/train: {'; '.join(found.reasons)}; mend the targets and check them again (luffy run --select "
            "'key:targets/train'), or train on them as they are with training.ignore_checks=true, which the lineage "
            "records"
        )


def require_known_failures(found: Verdicts, accepted: Collection[str]) -> None:
    """Raise InputError if targets failed a check and their policy was not trained in spite of it.

    Args:
        found: The verdicts on the targets that the policy was trained on.
        accepted: The checks that may fail, which the lineage of the policy records.
    """
    failed = [f"{name} failed: {observed}" for name, observed in found.failed.items() if name not in accepted]
    if failed:
        raise InputError(
            f"registry/champion: the targets of this policy do not pass: {'; '.join(failed)}; train on targets that "
            "pass, or choose this policy by hand (luffy champion promote)"
        )


def target_checks(suite: Path, names: Names) -> list[dg.AssetChecksDefinition]:
    """Build the checks of targets/train: the checks of ``suite``, and the account."""
    train_key = names.key(TRAIN)

    @dg.multi_asset_check(
        name=names.name("targets__checks"),
        specs=[spec.replace_key(dg.AssetCheckKey(train_key, spec.name)) for spec in check_specs(suite)],
        ins={"train": train_key},
        can_subset=True,
    )
    def targets_checks(
        context: dg.AssetCheckExecutionContext, luffy: dg.ResourceParam[Luffy], train: TrainReference
    ) -> Iterator[dg.AssetCheckResult]:
        from targets.check.checks_page import PAGE, write_page

        with user_errors(context):
            storage = luffy.storage
            suite, rows, previous = luffy.checks, Path(train.profile), Path(train.previous) if train.previous else None
            files = [digest_shards(file) if file and is_there(file) else None for file in (suite, rows, previous)]
            pages = storage.result("targets", "checks", kinds.PREPARED.identity(files))
            if storage.has(pages, kinds.PREPARED, context.log, lambda folder: read_json(folder / RESULTS)):
                validated = [CheckResult(**result) for result in read_json(pages / RESULTS)]
                if any(result.error for result in validated):  # a check that broke may work this time
                    validated = validate(rows, suite=suite, previous=previous)
            else:
                with storage.writing(pages, kinds.PREPARED) as temporary:
                    validated = validate(rows, suite=suite, previous=previous)
                    write_page(validated, temporary)
                    write_json([asdict(result) for result in validated], temporary / RESULTS)
            selected = {check.name for check in context.selected_asset_check_keys}
            results = [result for result in validated if result.name in selected]
            for result in results:
                metadata = {VERSION_ENTRY: train.digest, "page": storage.link(pages / PAGE)}
                yield _outcome(luffy.names.key(TRAIN), result, metadata, ignore=luffy.settings.training.ignore_checks)
            context.log.info("; ".join(summarize(results)))

    @dg.multi_asset_check(
        name=names.name("targets__account"),
        specs=[ACCOUNTED.replace_key(dg.AssetCheckKey(train_key, ACCOUNT))],
        ins={"train": train_key},
    )
    def targets_account(
        context: dg.AssetCheckExecutionContext, luffy: dg.ResourceParam[Luffy], train: TrainReference
    ) -> dg.AssetCheckResult:
        from targets.prepared_files import read_prepared
        from targets.select.split import read_split, reconcile

        with user_errors(context):
            prepared = read_prepared(Path(train.profile).parent)
            done = reconcile(prepared, read_split(Path(train.path).parent))
            context.log.info("; ".join(done.problems) or f"{done.read:,} traces read, each accounted for")
            return dg.AssetCheckResult(
                asset_key=luffy.names.key(TRAIN),
                check_name=ACCOUNT,
                passed=not done.problems,
                severity=dg.AssetCheckSeverity.ERROR,
                description="; ".join(done.problems) or None,
                metadata={
                    VERSION_ENTRY: train.digest,
                    "read": done.read,
                    **done.rows,
                    "by source": by_source(prepared),
                },
            )

    return [targets_checks, targets_account]


def _outcome(asset: dg.AssetKey, result: CheckResult, metadata: dict[str, Any], *, ignore: bool) -> dg.AssetCheckResult:
    """Return one check result with more ``metadata``; its history plots ``value`` if that is a number.

    ``ignore``: a failure is a warning, so that a training follows in the same run.
    """
    numbers: dict[str, float] = {} if result.failing is None else {"failing": result.failing}
    if isinstance(result.observed, int | float) and not isinstance(result.observed, bool):
        numbers["value"] = result.observed
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=result.name,
        passed=result.passed,
        severity=SEVERITY["warning" if ignore else result.severity],
        description=None if result.passed else f"{result.description} Observed: {result.observed_text}",
        metadata={
            **metadata,
            BLOCKS_ENTRY: result.severity == "error",
            "observed": cell(result.observed_text),
            "expected": dg.MetadataValue.json(result.expected),
            "rows": result.rows,
            **numbers,
        },
    )
