"""Retraining by itself: only when the content of an input changed, and its gates passed."""

import dagster as dg
import pytest

from assets.checks import SEVERITY, check_specs
from assets.training import retrain_on_new_targets
from targets.check.expectations import SUITE

TRAIN, POLICY = dg.AssetKey(["targets", "train"]), dg.AssetKey(["training", "policy"])
CHECKS = {spec.name: str(spec.metadata["severity"]) for spec in check_specs(SUITE)}


@dg.asset(key=TRAIN, check_specs=check_specs(SUITE))
def train(context: dg.AssetExecutionContext):
    content, failing = context.run_tags["content"], context.run_tags["failing"]
    results = [
        dg.AssetCheckResult(check_name=name, passed=severity != failing, severity=SEVERITY[severity])
        for name, severity in CHECKS.items()
    ]
    yield dg.MaterializeResult(data_version=dg.DataVersion(content), check_results=results)


@dg.asset(key=POLICY, deps=[TRAIN], automation_condition=retrain_on_new_targets())
def policy() -> None: ...


DEFS = dg.Definitions(assets=[train, policy])


class Installation:
    """An instance with the ticks of its automation sensor."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.cursor = None

    def targets(self, content: str, failing: str = "") -> None:
        """Make targets; the checks of the severity ``failing`` fail."""
        tags = {"content": content, "failing": failing}
        DEFS.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance, asset_selection=[TRAIN], tags=tags, raise_on_error=False
        )

    def tick(self) -> bool:
        """Whether a training is requested; one that is, is done."""
        found = dg.evaluate_automation_conditions(DEFS, instance=self.instance, cursor=self.cursor)
        self.cursor = found.cursor
        if found.total_requested:
            DEFS.resolve_implicit_global_asset_job_def().execute_in_process(
                instance=self.instance, asset_selection=[POLICY]
            )
        return found.total_requested > 0


@pytest.fixture
def installation():
    with dg.DagsterInstance.ephemeral() as instance:
        made = Installation(instance)
        made.targets("a")
        made.tick()
        yield made


def test_the_same_content_does_not_retrain(installation: Installation):
    installation.targets("a")
    assert not installation.tick()
    assert not installation.tick()


def test_new_content_retrains_once(installation: Installation):
    installation.targets("b")
    assert installation.tick()
    assert not installation.tick()


def test_new_content_waits_for_its_gates(installation: Installation):
    installation.targets("b", failing="error")
    assert not installation.tick()
    installation.targets("b")
    assert installation.tick()
    assert not installation.tick()


def test_new_content_does_not_wait_for_warnings(installation: Installation):
    installation.targets("b", failing="warning")
    assert installation.tick()
    assert not installation.tick()


def test_changes_during_a_training_coalesce_into_one_after_it(installation: Installation):
    installation.targets("b")
    job = DEFS.resolve_implicit_global_asset_job_def().get_subset(asset_selection={POLICY})
    run = installation.instance.create_run_for_job(job, asset_selection=frozenset({POLICY}))
    start = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
    installation.instance.report_dagster_event(start, run_id=run.run_id)
    assert not installation.tick()
    installation.targets("c")
    installation.targets("d")
    assert not installation.tick()
    installation.instance.report_run_failed(run)
    assert installation.tick()
    assert not installation.tick()
