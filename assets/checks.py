"""The gates on targets/train: one blocking asset check for each expectation of the suite of data quality."""

from collections.abc import Iterator

import dagster as dg

from assets.display import cell
from assets.failures import explained
from assets.storage import Reference
from assets.targets import TRAIN
from training.targets.quality import load_checks

SEVERITY = {"error": dg.AssetCheckSeverity.ERROR, "warning": dg.AssetCheckSeverity.WARN}


def build_checks() -> list[dg.AssetChecksDefinition]:
    """The checks of ``training/targets/suites/targets.yaml``; Great Expectations is imported when they run."""
    specs = [
        dg.AssetCheckSpec(
            check.name,
            asset=TRAIN,
            blocking=True,  # a warning never blocks: Dagster looks at the severity of the result
            description=check.description,
            metadata={"severity": check.severity, "expectation": check.type},
        )
        for check in load_checks()
    ]

    @dg.multi_asset_check(name="targets__checks", specs=specs, ins={"train": TRAIN}, can_subset=True)
    @explained
    def targets_checks(context: dg.AssetCheckExecutionContext, train: Reference) -> Iterator[dg.AssetCheckResult]:
        from pathlib import Path

        from training.targets.quality import validate

        wanted = {check.name for check in context.selected_asset_check_keys}
        results = [result for result in validate(Path(train.details["profile"])) if result.name in wanted]
        for result in results:
            seen = result.error or ("" if result.observed is None else str(result.observed))
            numbers = {} if result.failing is None else {"failing": result.failing}
            yield dg.AssetCheckResult(
                asset_key=TRAIN,
                check_name=result.name,
                passed=result.passed,
                severity=SEVERITY[result.severity],
                description=None if result.passed else f"{result.description} Found: {seen}",
                metadata={
                    "observed": cell(seen),
                    "expected": dg.MetadataValue.json(result.expected),
                    "rows": result.rows,
                    **numbers,
                },
            )
        failed = [f"{result.severity}: {result.name}" for result in results if not result.passed]
        context.log.info(", ".join([f"{len(results) - len(failed)} of {len(results)} checks passed", *failed]))

    return [targets_checks]
