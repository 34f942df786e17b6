"""Run one training from its request to its policy folder: the sequence of steps.

The configuration is composed and checked, then a backend starts verl, its metrics are followed while they are written,
and the last checkpoint becomes ``policy/``. `training.job.run_folder` says what lies where.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from core.backends import build_backend
from core.backends.monitor import Attempt, attempts, hold, next_attempt
from core.backends.task import Backend, Task, base_environment
from core.code_digest import SHORT_DIGEST
from core.errors import InputError, first_line
from core.files import digest_bytes, read_json_lines, read_yaml, write_text
from core.model.lineage_file import InputRecord, Manifest, TargetsRecord, read_manifest
from core.parquet import count_rows
from training.algorithms.prompt_order import SHUFFLE
from training.config.compose import compose
from training.config.run_checks import check_run, own_trackers
from training.config.teacher_checks import check_teacher, served_folder
from training.config.teacher_settings import lay_out_teacher
from training.config.to_verl import to_verl
from training.diagnosis.before import warn_before
from training.diagnosis.live import Watch
from training.export.upload import push_to_hub
from training.job.attempts import Report, done, follow, progress, steps_before, warn
from training.job.checkpoints import (
    complete_steps,
    export_policy,
    exported_step,
    latest_step,
    prepare_resume,
    remove_old,
)
from training.job.input_checks import (
    MATH,
    check_context,
    check_pass_rates,
    check_targets,
    read_verifiers,
    run_files,
    verl_files,
)
from training.job.lineage import build_manifest, code_record
from training.job.records.ledger_table import write_ledger
from training.job.request import TrainingRequest
from training.job.run_folder import RunFolder
from training.job.trackers import open_runs, publish
from training.job.user_reward import SHIPPED, VERIFIERS, check_reward_function, wrapped
from training.plugins import TRACKERS
from training.resources.auto_values import resolve_auto
from training.resources.layout import Layout
from training.resources.machine import machine_of
from training.resources.memory import estimates
from training.resources.model_shape import ModelShape
from training.resources.requirements import check_requirements
from training.resources.trainable_models import check_architecture


def run_job(request: TrainingRequest, report: Report) -> bool:
    """Train the policy of ``request`` in its folder, unless it is there already.

    Args:
        request: the inputs and settings, with their digests. An interrupted run in its folder is resumed.
        report: receives the events (`training.job.attempts`).

    Returns:
        Whether a policy of the same identity was reused.
    """
    folder = RunFolder(request.out)
    run = compose(request.recipe, request.hardware, request.config_overrides()).run
    config = to_verl(run, request.out.resolve())
    check_run(config)
    data = _check_inputs(request, config)
    with hold(folder.path, "training", partial(progress, report)) as lock:
        forced = request.force or folder.is_forced(request)
        reused = not forced and folder.has_policy_of(request, partial(progress, report))
        if not reused:
            backend = build_backend(OmegaConf.to_container(config.run), lock)
            _refuse_running(request, folder, backend)
            folder.claim(request)
            model, first = _first_stage(request, config, folder, report)
            _lay_out(config, folder, model, report)
            for key in run.unread():
                warn(report, latest_step(folder.checkpoints), f"{key}: no run on a CPU reads it, and perhaps none does")
            if not latest_step(folder.checkpoints):
                warn_before(config, data.path, model, partial(warn, report))
            training, problems = run_files(data.path, config, folder.path)
            rows = count_rows(training)
            environment = _fill_in(config, data=training, problems=problems, rows=rows, model=model)
            write_text(OmegaConf.to_yaml(config, resolve=True), folder.config)
            environment |= _open_trackers(request, config, folder)
            _train(request, folder, config, environment, backend, report)
            progress(report, "writing the policy")
            ledger = write_ledger(folder.path, data.path, exported_step(folder.checkpoints, config.policy_from))
            manifest = build_manifest(request, folder, config, data, request.upstream, first, ledger)
            export_policy(folder.checkpoints, folder.policy, manifest, config.policy_dtype, base=request.model.path)
            folder.end(request)
            logged = {record["step"] for record in read_json_lines(folder.metrics)}
            if gaps := sorted({*range(1, manifest.steps + 1)} - logged):
                warn(report, manifest.steps, f"{folder.attempts}: no metrics of the steps {', '.join(map(str, gaps))}")
            _publish(folder, report)
        if config.run.push_to_hub:
            progress(report, f"uploading to {config.run.push_to_hub}")
            push_to_hub(folder.policy, config.run.push_to_hub)
    done(report, folder.policy, reused=reused)
    return reused


def _refuse_running(request: TrainingRequest, folder: RunFolder, backend: Backend) -> None:
    """Raise InputError if ``request`` forces a training in a folder whose job still runs on a cluster."""
    if not request.force or folder.is_forced(request) or not (earlier := attempts(folder.attempts)):
        return
    if backend.reattach(task := _task(request, folder, {}, earlier[-1])):
        raise InputError(
            f"{folder.path}: its job {task.name} still runs: leave out --force to follow it, or stop it before you "
            "train anew"
        )


def _check_inputs(request: TrainingRequest, config: DictConfig) -> TargetsRecord:
    """Check the files that the run reads; the targets of its last stage.

    Raises:
        InputError: one of them cannot be trained with.
    """
    data = request.targets
    if config.first_stage is not None and config.first_stage.heldout:
        if request.heldout is None:
            raise InputError(f"recipe {request.recipe}: its second stage trains on held-out targets: give --heldout")
        data = request.heldout
    check_context(request.model.path, config)
    check_teacher(config, request.model.path)
    targets = check_targets(data, request.model.path, config)
    check_pass_rates(data.path, config)
    if config.objective == "rl":
        check_reward_function(OmegaConf.to_container(config.reward.custom_reward_function))
    if config.data.val_files:
        given = Path(config.data.val_files)
        check_targets(InputRecord(path=given, digest=""), request.model.path, config, least=1)
    return targets


def _first_stage(
    request: TrainingRequest, config: DictConfig, folder: RunFolder, report: Report
) -> tuple[Path, Manifest | None]:
    """Run the first stage, if there is one; the model to start from, and the manifest of the first stage."""
    if config.first_stage is None:
        return request.model.path, None
    stage = request.first_stage(config.first_stage.recipe, config.first_stage.set)
    run_job(stage, partial(_report_first_stage, report))
    return folder.first_stage.policy, read_manifest(folder.first_stage.policy)


def _open_trackers(request: TrainingRequest, config: DictConfig, folder: RunFolder) -> dict[str, str]:
    """Open the run in each tracker; the variables with which verl finds it."""
    return open_runs(
        folder.path,
        config.run.trackers,
        project=config.trainer.project_name,
        name=f"{request.recipe_name}-seed{request.seed}-{request.identity()[:SHORT_DIGEST]}",
        config=folder.config.read_text(encoding="utf-8"),
    )


def _lay_out(config: DictConfig, folder: RunFolder, model: Path, report: Report) -> None:
    """Give the ``auto`` keys their values, report the memory that the run takes, and warn if that is too much.

    Raises:
        InputError: the machine lacks something else, the model is not one that can be trained, or the checkpoints in
            the folder are parts for another number of GPUs.
    """
    machine = machine_of(OmegaConf.to_container(config.run), folder.path)
    shape, saved = ModelShape.of_folder(model), complete_steps(folder.checkpoints)
    teacher = served_folder(config, model)
    teacher_shape = None if teacher is None else ModelShape.of_folder(teacher)
    resolve_auto(config, machine, shape, teacher=teacher_shape)
    if teacher is not None:
        lay_out_teacher(config, str(teacher))
    check_architecture(model, config, partial(progress, report))
    if saved and folder.config.is_file():
        before = _devices_of(folder.config)
        if before != (devices := Layout.of(config).devices):
            raise InputError(
                f"{folder.path}: its checkpoints are in {before} parts, one per GPU, and this run has {devices} GPUs: "
                f"resume it with {before}, or give --out another folder"
            )
    check_requirements(config, machine, shape, saved=len(saved))
    cuda = config.trainer.device == "cuda"
    for estimate in estimates(Layout.of(config), machine, shape, cuda=cuda, teacher=teacher_shape):
        progress(report, str(estimate))
        if not estimate.fits:
            text = f"{estimate.name} may run out of memory: try {estimate.remedy}"
            warn(report, latest_step(folder.checkpoints), text)


def _devices_of(file: Path) -> int:
    """Return the number of GPUs of a run by its configuration; InputError if that is damaged."""
    try:
        return Layout.of(OmegaConf.create(read_yaml(file, "configuration"))).devices
    except (OmegaConfBaseException, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{file}: not the configuration of a run ({first_line(error)}): remove the file") from error


def _fill_in(config: DictConfig, *, data: Path, problems: Path, rows: int, model: Path) -> dict[str, str]:
    """Fill in the inputs; returns the environment of the training process, which is no part of verl's configuration."""
    with open_dict(config):
        if config.trainer.total_training_steps is None:
            config.trainer.total_training_steps = config.trainer.total_epochs * (rows // config.data.train_batch_size)
        config.data.train_files = verl_files(data)
        config.data.shuffle = config.data.shuffle and config.data.order == SHUFFLE
        config.data.val_files = verl_files(problems)  # verl demands a file, also where nothing is validated
        config.data.val_max_samples = -1 if config.trainer.test_freq > 0 else 1
        config.actor_rollout_ref.model.path = str(model.resolve())
        section = config.reward.custom_reward_function
        verifiers = {**read_verifiers(problems), **read_verifiers(data)}
        if section.path == SHIPPED and set(verifiers.values()) != {MATH}:
            specs = json.dumps({name: spec.to_json() for name, spec in verifiers.items()}, sort_keys=True)
            section.reward_kwargs = {VERIFIERS: specs}
        elif section.path != SHIPPED:
            config.reward.custom_reward_function = wrapped(OmegaConf.to_container(section))
        config.trainer.logger = ["console", "file", *(name for name in config.run.trackers if name in TRACKERS)]
        return {name: str(value) for name, value in config.pop("environment").items() if value is not None}


def _train(
    request: TrainingRequest,
    folder: RunFolder,
    config: DictConfig,
    environment: Mapping[str, str],
    backend: Backend,
    report: Report,
) -> None:
    """Run the next attempt, or the last one if it still runs, to its end; do nothing if all steps are done."""
    folder.attempts.mkdir(exist_ok=True)
    total, earlier = config.trainer.total_training_steps, attempts(folder.attempts)
    task = partial(_task, request, folder, environment)
    resumed = latest_step(folder.checkpoints)
    if earlier and backend.reattach(task(earlier[-1])):
        attempt, done = earlier[-1], latest_step(folder.checkpoints)
    else:
        attempt = next_attempt(folder.attempts)
        done = prepare_resume(folder.checkpoints, partial(progress, report))
        remove_old(folder.checkpoints, config.run.keep_checkpoints)  # a kill may have come between saving and removing
        if done >= total:
            return
    rollouts = None if resumed else folder.rollouts
    before = steps_before(attempt, earlier, done)
    watch = Watch(OmegaConf.to_container(config), partial(warn, report), earlier=before, rollouts=rollouts)
    follow(
        attempt,
        backend,
        task(attempt),
        total=total,
        done=done,
        stall_seconds=config.run.stall_seconds,
        trackers=own_trackers(config),
        after_step=watch.step,
        code=code_record().model_dump(),
        report=report,
    )


def _task(request: TrainingRequest, folder: RunFolder, environment: Mapping[str, str], attempt: Attempt) -> Task:
    """Build the task of an attempt; its name depends on the folder alone, so that newer code finds it too."""
    path = folder.path.resolve()
    return Task(
        name=f"luffy-{request.recipe_name}-{digest_bytes(str(path).encode())[:16]}-{attempt.number}",
        module=("training.verl_hooks.main", str(folder.config.resolve())),
        environment={
            **base_environment(),
            "TENSORBOARD_DIR": str(path / "tensorboard"),
            "WANDB_DIR": str(path),
            "VERL_FILE_LOGGER_PATH": str(attempt.records.resolve()),
            **environment,
        },
        log=attempt.log,
    )


def _publish(folder: RunFolder, report: Report) -> None:
    """Publish the lineage in the runs of the trackers; the policy does not depend on them."""
    try:
        for line in publish(folder.path):
            progress(report, line)
    except InputError as error:
        progress(report, f"warning: {error}. Later: luffy train track --run {folder.path}")


def _report_first_stage(report: Report, event: dict[str, Any]) -> None:
    """Pass on an event of the first stage; its end is progress of the whole run."""
    if event["event"] == "done":
        progress(report, f"first stage: {event['message']}")
    else:
        report(event)
