"""Asset checks that gate targets/train: one for each expectation of the suite, and the account of all traces."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.failures import reports_input_errors
from assets.shared.metadata import cell
from assets.shared.profile import Profile, profile_asset
from assets.shared.references import TrainReference
from assets.shared.storage import Storage
from assets.targets import TRAIN
from core.code_digest import code_version, identity
from core.errors import InputError
from core.files import digest_file, read_json, write_json
from targets.check.expectations import CheckResult, load_checks

SEVERITY = {"error": dg.AssetCheckSeverity.ERROR, "warning": dg.AssetCheckSeverity.WARN}
RESULTS = "results.json"  # of the checks of the same files by the same suite
ACCOUNT = "every_trace_accounted_for"
VERSION = code_version("targets/check/expectations.py")
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
            blocking=True,  # a warning never blocks: Dagster looks at the severity of the result
            description=check.description,
            metadata={"severity": check.severity, "expectation": check.type},
        )
        for check in checks
    ]


def check_keys(suite: Path) -> list[dg.AssetCheckKey]:
    """The blocking checks of targets/train."""
    return [dg.AssetCheckKey(TRAIN, name) for name in (*(check.name for check in load_checks(suite)), ACCOUNT)]


def require_passed(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey], *, ignore: bool) -> list[str]:
    """Require the blocking checks of the targets to pass; with ``ignore``, return those that failed.

    Dagster blocks what follows a failed check in the same run only; a later run has to look for itself.

    Raises:
        InputError: there are some, and they are not to be ignored.
    """
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    failed = sorted(key.name for key, record in records.items() if _is_error(record))
    if failed and not ignore:
        raise InputError(
            f"targets/train: its check {', '.join(failed)} failed: mend the targets and check them again "
            "(luffy run --select 'key:targets/train'), or train on them as they are with training.ignore_checks=true, "
            "which the lineage records"
        )
    return failed


def _is_error(record: Any) -> bool:
    evaluation = record.event and record.event.asset_check_evaluation
    return bool(evaluation and not evaluation.passed and evaluation.severity is dg.AssetCheckSeverity.ERROR)


@profile_asset(dg.multi_asset_check, name="targets__checks", ins={"train": TRAIN}, can_subset=True)
def targets_checks(
    context: dg.AssetCheckExecutionContext,
    profile: dg.ResourceParam[Profile],
    train: TrainReference,
    storage: Storage,
) -> Iterator[dg.AssetCheckResult]:
    from targets.check.expectations import validate

    suite, rows, previous = profile.checks, Path(train.profile), Path(train.previous) if train.previous else None
    files = [digest_file(file) if file and file.is_file() else None for file in (suite, rows, previous)]
    pages = storage.folder("targets", "data_docs", identity(files, VERSION))
    if pages.exists():
        validated = [CheckResult(**result) for result in read_json(pages / RESULTS)]
        if any(result.error for result in validated):  # a check that broke may work this time
            validated = validate(rows, suite=suite, previous=previous)
    else:
        with storage.writing(pages) as temporary:
            validated = validate(rows, suite=suite, previous=previous, docs=temporary)
            write_json([asdict(result) for result in validated], temporary / RESULTS)
    selected = {check.name for check in context.selected_asset_check_keys}
    results = [result for result in validated if result.name in selected]
    for result in results:
        yield _outcome(result, storage.link(pages / "index.html"))
    failed = [f"{result.severity}: {result.name}" for result in results if not result.passed]
    context.log.info(", ".join([f"{len(results) - len(failed)} of {len(results)} checks passed", *failed]))


def _outcome(result: CheckResult, page: dg.UrlMetadataValue) -> dg.AssetCheckResult:
    """Return one check result; the history of the check plots ``value`` if it is a number."""
    observed = result.error or ("" if result.observed is None else str(result.observed))
    numbers: dict[str, float] = {} if result.failing is None else {"failing": result.failing}
    if isinstance(result.observed, int | float) and not isinstance(result.observed, bool):
        numbers["value"] = result.observed
    return dg.AssetCheckResult(
        asset_key=TRAIN,
        check_name=result.name,
        passed=result.passed,
        severity=SEVERITY[result.severity],
        description=None if result.passed else f"{result.description} Observed: {observed}",
        metadata={
            "observed": cell(observed),
            "expected": dg.MetadataValue.json(result.expected),
            "rows": result.rows,
            "data docs": page,
            **numbers,
        },
    )


@dg.multi_asset_check(name="targets__account", specs=[ACCOUNTED], ins={"train": TRAIN})
@reports_input_errors
def targets_account(context: dg.AssetCheckExecutionContext, train: TrainReference) -> dg.AssetCheckResult:
    from targets.prepared import read_prepared
    from targets.select.split import read_split, reconcile

    prepared = read_prepared(Path(train.profile).parent)
    done = reconcile(prepared, read_split(Path(train.path).parent))
    context.log.info("; ".join(done.problems) or f"{done.read:,} traces read, each accounted for")
    return dg.AssetCheckResult(
        asset_key=TRAIN,
        check_name=ACCOUNT,
        passed=not done.problems,
        severity=dg.AssetCheckSeverity.ERROR,
        description="; ".join(done.problems) or None,
        metadata={"read": done.read, **done.rows},
    )
