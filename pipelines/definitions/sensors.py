"""Sensors for failed runs, changed data, new policies and dead runs.

They are off by default, except for the one that ends what is dead.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace

import dagster as dg

from assets.shared.live_metrics import ALERT, METRICS
from assets.shared.luffy import Names
from assets.shared.references import PreparedReference
from assets.shared.storage import Storage
from assets.source import with_upstream_files
from assets.targets import PREPARED
from assets.training import POLICY
from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.text.secrets import redact
from pipelines.definitions.dead_runs import end_dead_runs, runs_elsewhere
from pipelines.definitions.jobs import PREPARE, SCORE, Job
from pipelines.definitions.notices import Notice, send
from pipelines.definitions.schedules import unfinished
from pipelines.definitions.source_watch import SourceState, changing_sources
from pipelines.settings import NotifySettings, Settings

STOPPED = dg.DefaultSensorStatus.STOPPED
OBSERVATIONS = 200  # the number that is read at once
MATERIALIZATIONS = 100  # the number that is looked at
ELSEWHERE_SECONDS = 50.0  # a pod that is being replaced ends its runs within this time


def build_sensors(names: Names, jobs: Mapping[str, Job], settings: Settings) -> list[dg.SensorDefinition]:
    """Build all sensors."""
    automation = dg.AutomationConditionSensorDefinition(
        names.name("retrain_on_new_targets"),
        target=dg.AssetSelection.assets(names.key(POLICY)),
        default_status=STOPPED,
        description="Start a training when the content of the targets has changed and their checks have passed.",
    )
    return [
        notify_run_failures(names, settings.notify),
        notify_training_alerts(names, settings.notify),
        watch_sources(names, jobs[PREPARE], settings),
        automation,
        score_new_policies(names, jobs[SCORE]),
        stop_orphans(names),
    ]


def notify_run_failures(names: Names, settings: NotifySettings) -> dg.SensorDefinition:
    """Reports each failed run to the addresses of ``settings``."""

    @dg.run_failure_sensor(
        name=names.name("notify_run_failures"),
        default_status=STOPPED,
        description="Report each failed run with the step and the reason: in the daemon's log, and to the addresses of "
        f"notify.url_variables ({', '.join(settings.url_variables) or 'none'}).",
    )
    def sensor(context: dg.RunFailureSensorContext) -> None:
        notice = failure_notice(context)
        context.log.error(redact(f"{notice.subject}: {notice.text}"))
        for failure in send(settings, notice):
            context.log.error(failure)

    return sensor


def failure_notice(context: dg.RunFailureSensorContext) -> Notice:
    """Describe the run and why each of its failed steps failed."""
    failures = {event.step_key: reason(event.step_failure_data.error) for event in context.get_step_failure_events()}
    listed = "; ".join(f"{step}: {text}" for step, text in failures.items()) or context.failure_event.message or ""
    run = context.dagster_run
    return Notice(f"run {run.run_id} of {run.job_name} failed", listed)


def notify_training_alerts(names: Names, settings: NotifySettings) -> dg.SensorDefinition:
    """Reports the warnings about trainings that are under way to the addresses of ``settings``."""

    @dg.sensor(
        name=names.name("notify_training_alerts"),
        minimum_interval_seconds=30,
        default_status=STOPPED,
        description="Send the warnings of a training while it is in progress to the addresses of notify_run_failures.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        read, sent = json.loads(context.cursor or "{}"), 0
        key = names.key(METRICS)
        name = key.to_user_string()
        if name not in read:  # switched on just now: what was before is known
            latest = context.instance.fetch_observations(key, limit=1).records
            read[name] = latest[0].storage_id if latest else 0
        wanted = dg.AssetRecordsFilter(asset_key=key, after_storage_id=read[name])
        for record in context.instance.fetch_observations(wanted, limit=OBSERVATIONS, ascending=True).records:
            metadata = record.asset_observation.metadata if record.asset_observation else {}
            if ALERT in metadata:
                where = f"run {record.run_id}, {name}, step {metadata['step'].value}"
                context.log.warning(redact(f"{where}: {metadata[ALERT].value}"))
                for failure in send(settings, Notice(where, str(metadata[ALERT].value))):
                    context.log.error(failure)
                sent += 1
            read[name] = record.storage_id
        context.update_cursor(json.dumps(read))
        return dg.SkipReason(f"warnings reported: {sent}")

    return sensor


def watch_sources(names: Names, job: Job, settings: Settings) -> dg.SensorDefinition:
    """Prepares the targets again when the content of the traces changed."""

    @dg.sensor(
        name=names.name("watch_sources"),
        job=job,
        minimum_interval_seconds=60,
        default_status=STOPPED,
        description="Prepare the targets when the content of their files, or the commit of their hub dataset, changed. "
        "Changes during a preparation lead to one more run after it.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if not changing_sources(settings.targets):
            return dg.SkipReason("the embedded generator always makes the same traces")
        options = with_upstream_files(context.instance, settings.targets)
        state = SourceState.from_cursor(context.cursor).observe(options)
        if state.digest == (state.requested or prepared_digest(Storage(root=settings.storage.root))):
            return skip(f"unchanged: {state.digest[:SHORT_DIGEST]}", state)
        if earlier := unfinished(context.instance, names.name(PREPARE)):
            return skip(f"changed while run {earlier} is in progress: will be requested after it", state)
        state = replace(state, requested=state.digest, number=state.number + 1)
        tags = {"luffy/source": state.digest[:SHORT_DIGEST]}
        request = dg.RunRequest(run_key=f"{state.number}-{state.digest}", tags=tags)
        return dg.SensorResult(run_requests=[request], cursor=state.to_cursor())

    return sensor


def skip(reason: str, state: SourceState) -> dg.SensorResult:
    """Skip the tick, and keep the state of the source for the next one."""
    return dg.SensorResult(skip_reason=reason, cursor=state.to_cursor())


def prepared_digest(storage: Storage) -> str:
    """Return the digest of the traces that the targets were made of; "" if there are no targets yet."""
    try:
        return storage.read_reference(PREPARED.to_user_string(), PreparedReference).source_digest
    except InputError:
        return ""


def score_new_policies(names: Names, job: Job) -> dg.SensorDefinition:
    """Evaluate policies that were trained outside a full run."""

    @dg.asset_sensor(
        asset_key=names.key(POLICY),
        job=job,
        name=names.name("score_new_policies"),
        minimum_interval_seconds=30,
        default_status=STOPPED,
        description="Evaluate a new policy and promote it if it wins, unless the run that trained it does so itself.",
    )
    def sensor(context: dg.SensorEvaluationContext, event: dg.EventLogEntry) -> dg.RunRequest | dg.SkipReason:
        digest = version_of(event)
        run = context.instance.get_run_by_id(event.run_id)
        if run is not None and run.execution_plan_snapshot_id is not None:
            plan = context.instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
            if names.name("report__scorecard") in plan.step_keys_to_execute:
                return dg.SkipReason(f"run {run.run_id} scores policy {digest[:SHORT_DIGEST]} itself")
        return dg.RunRequest(run_key=f"{digest} {appearance(context.instance, names.key(POLICY), digest)}")

    return sensor


def version_of(event: dg.EventLogEntry) -> str:
    """Return the data version of a materialization."""
    made = event.asset_materialization
    return ((made.tags if made else None) or {}).get("dagster/data_version", event.run_id)


def appearance(instance: dg.DagsterInstance, key: dg.AssetKey, version: str) -> int:
    """Return the number of the event since which ``key`` has ``version``: a version that returns appears again."""
    number = 0
    for record in instance.fetch_materializations(key, limit=MATERIALIZATIONS).records:
        if version_of(record.event_log_entry) != version:
            break
        number = record.storage_id
    return number


def stop_orphans(names: Names) -> dg.SensorDefinition:
    """Ends dead runs."""

    @dg.sensor(
        name=names.name("stop_orphans"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="End runs without a process, such as a run after its terminal was closed or its code server was "
        "killed, and free their slots in the pools.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        known, now = json.loads(context.cursor or "{}"), time.time()
        origin = context.code_location_origin
        elsewhere = runs_elsewhere(context.instance, origin.location_name) if origin else []
        since = {run: known.get(run, now) for run in elsewhere}
        ended = end_dead_runs(context.instance, [run for run in since if now - since[run] >= ELSEWHERE_SECONDS])
        context.update_cursor(json.dumps(since))
        return dg.SkipReason(f"{len(ended)} dead runs ended")

    return sensor


def reason(error: object) -> str:
    """Return the part of a step's error that helps the user: the deepest cause, without the stack."""
    while (cause := getattr(error, "cause", None)) is not None:
        error = cause
    text = str(getattr(error, "message", error)).strip()
    name = str(getattr(error, "cls_name", ""))
    text = re.sub(rf"^[\w.]*\b{re.escape(name)}: ", "", text) if name else text
    return text.removeprefix(f"{dg.Failure.__module__}.Failure: ")
