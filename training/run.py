"""Run one training from its request to its policy folder: the sequence of steps.

The configuration is composed and checked, then verl trains, and the last checkpoint becomes ``policy/``. On a Ray
cluster or under Slurm, the same command does that as a job. `training.job.run_folder` says what lies where.
"""

import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from core.backends.attempts import attempts, hold, next_attempt
from core.code_digest import SHORT_DIGEST, identity
from core.errors import InputError, first_line
from core.files import read_json_lines, read_yaml, write_text
from core.model.lineage_file import InputRecord, Manifest, TargetsRecord, read_manifest
from core.parquet import count_rows
from core.plugins.user_code import UserFunctionError, named_in_errors
from grading.tools.toolbox import Toolbox
from training.algorithms.prompt_order import SHUFFLE
from training.config.compose import compose
from training.config.run_checks import check_run, own_trackers
from training.config.teacher_checks import check_teacher, served_folder
from training.config.teacher_settings import lay_out_teacher
from training.config.to_verl import set_tools, to_verl, tools_of
from training.diagnosis.before import warn_before
from training.diagnosis.live import Watch
from training.driver import run_attempt
from training.export.upload import push_to_hub
from training.job.checkpoints import (
    complete_steps,
    export_policy,
    exported_step,
    latest_step,
    prepare_resume,
    remove_old,
)
from training.job.events import Report, done, progress, step_event, warn
from training.job.input_checks import (
    check_context,
    check_pass_rates,
    check_several_targets,
    check_targets,
    read_target_tools,
    read_verifiers,
    run_files,
    verl_files,
)
from training.job.lineage import build_manifest, code_record
from training.job.records.ledger_table import write_ledger
from training.job.records.metrics_log import merge_attempts, seconds_of
from training.job.request import TrainingRequest
from training.job.run_folder import RunFolder
from training.job.trackers import open_runs, publish
from training.job.user_reward import check_reward_function, reward_section
from training.plugins import TRACKERS
from training.resources.auto_values import resolve_auto
from training.resources.layout import Layout
from training.resources.machine import machine_of
from training.resources.memory import estimates
from training.resources.model_shape import ModelShape
from training.resources.requirements import check_requirements
from training.resources.trainable_models import check_architecture

SAMPLES = 8  # per validation, in the tables of trackers, unless trainer.log_val_generations says otherwise


class FirstStageFailed(Exception):
    """The command of a first stage ended with ``status`` and has printed why."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def submit(request: TrainingRequest, report: Report) -> None:
    """Train the policy of ``request`` as a job of the cluster that it names, unless it is there already.

    Raises:
        InputError: a mistake in the input; one that the job finds, too.
        TaskFailed: the job failed.
    """
    from core.backends.elsewhere import run_elsewhere

    folder = RunFolder(request.out)
    if not request.force and folder.answers(request):
        done(report, folder.policy, reused=True)
        return
    name = identity(str(folder.path), request.computed().model_dump(mode="json"))[:SHORT_DIGEST]
    run_elsewhere(
        ("training",),
        request.model_copy(update={"backend": "local", "ray_address": None, "slurm": {}}),
        request,
        folder.job,
        f"{request.recipe_name}-{name}",
        what="training",
        report=report,
        say=partial(progress, report),
    )


def run_job(request: TrainingRequest, report: Report) -> None:
    """Train the policy of ``request`` in its folder, unless it is there already.

    Args:
        request: the inputs and settings, with their digests. An interrupted run in its folder is resumed.
        report: receives the events (`training.job.events`).

    Raises:
        InputError: a mistake in the input.
        TaskFailed: the training failed.
        FirstStageFailed: its first stage did.
    """
    folder = RunFolder(request.out)
    run = compose(request.recipe, request.hardware, request.config_overrides()).run
    config = to_verl(run, request.out.resolve())
    check_run(config)
    data = _check_inputs(request, config)
    with hold(folder.path, "training", partial(progress, report)):
        forced = request.force or folder.is_forced(request)
        reused = not forced and folder.has_policy_of(request, partial(progress, report))
        if not reused:
            folder.claim(request)
            model, first = _first_stage(request, config, folder)
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
            _train(folder, config, environment, report)
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
    set_tools(config, read_target_tools(data.path), request.model.path)
    check_context(request.model.path, config)
    check_teacher(config, request.model.path)
    targets = check_targets(data, request.model.path, config)
    check_pass_rates(data.path, config)
    check_several_targets(data.path, config)
    if tools := tools_of(config):
        with Toolbox(tools, workers=1) as toolbox:
            toolbox.start()
    if config.objective == "rl":
        check_reward_function(OmegaConf.to_container(config.reward.custom_reward_function))
    if config.data.val_files:
        given = Path(config.data.val_files)
        check_targets(InputRecord(path=given, digest=""), request.model.path, config, least=1)
    return targets


def _first_stage(request: TrainingRequest, config: DictConfig, folder: RunFolder) -> tuple[Path, Manifest | None]:
    """Run the first stage, if there is one; the model to start from, and the manifest of the first stage."""
    if config.first_stage is None:
        return request.model.path, None
    stage = request.first_stage(config.first_stage.recipe, config.first_stage.set)
    file = stage.write(folder.path / "first_stage.json")
    process = subprocess.Popen([sys.executable, "-P", "-m", "training", "--request", str(file)])
    try:
        status = process.wait()
    finally:  # if we are stopped ourselves
        process.terminate()
        process.wait()
    if status:
        raise FirstStageFailed(status)
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
    machine = machine_of(folder.path)
    shape = ModelShape.of_folder(model)
    saved = complete_steps(folder.checkpoints)
    teacher = served_folder(config, model)
    teacher_shape = None if teacher is None else ModelShape.of_folder(teacher)
    resolve_auto(config, machine, shape, teacher=teacher_shape)
    if teacher is not None:
        lay_out_teacher(config, str(teacher))
    check_architecture(model, config, partial(progress, report))
    if saved and folder.config.is_file():
        before = _devices_of(folder.config)
        if before != (devices := Layout(config).devices):
            raise InputError(
                f"{folder.path}: its checkpoints are in {before} parts, one per GPU, and this run has {devices} GPUs: "
                f"resume it with {before}, or give --out another folder"
            )
    check_requirements(config, machine, shape, saved=len(saved))
    cuda = config.trainer.device == "cuda"
    for estimate in estimates(Layout(config), machine, shape, cuda=cuda, teacher=teacher_shape):
        progress(report, str(estimate))
        if not estimate.fits:
            text = f"{estimate.name} may run out of memory: try {estimate.remedy}"
            warn(report, latest_step(folder.checkpoints), text)


def _devices_of(file: Path) -> int:
    """Return the number of GPUs of a run by its configuration; InputError if that is damaged."""
    try:
        return Layout(OmegaConf.create(read_yaml(file, "configuration"))).devices
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
        section: Any = OmegaConf.to_container(config.reward.custom_reward_function)
        verifiers = {**read_verifiers(problems), **read_verifiers(data)}
        config.reward.custom_reward_function = reward_section(section, verifiers)
        config.trainer.logger = ["console", "file", *(name for name in config.run.trackers if name in TRACKERS)]
        config.trainer.log_val_generations = config.trainer.log_val_generations or SAMPLES
        return {name: str(value) for name, value in config.pop("environment").items() if value is not None}


def _train(folder: RunFolder, config: DictConfig, environment: Mapping[str, str], report: Report) -> None:
    """Run the next attempt to its end; do nothing if all steps are done."""
    folder.attempts.mkdir(exist_ok=True)
    total = config.trainer.total_training_steps
    earlier = attempts(folder.attempts)
    rollouts = None if latest_step(folder.checkpoints) else folder.rollouts
    done = prepare_resume(folder.checkpoints, partial(progress, report))
    remove_old(folder.checkpoints, config.run.keep_checkpoints)  # a kill may have come between saving and removing
    if done >= total:
        return
    if done:
        progress(report, f"resuming after step {done} of {total}")
    progress(report, "starting Ray, vLLM and the actor")
    before = [record for record in merge_attempts(one.records for one in earlier) if record["step"] <= done]
    watch = Watch(OmegaConf.to_container(config), partial(warn, report), earlier=before, rollouts=rollouts)
    steps = Steps(total, report, own_trackers(config), watch.step)
    path = folder.path.resolve()
    places = {"TENSORBOARD_DIR": str(path / "tensorboard"), "WANDB_DIR": str(path)}
    run_attempt(
        next_attempt(folder.attempts),
        config,
        {**places, **environment},
        stall_seconds=config.run.stall_seconds,
        on_record=steps.add,
        code=code_record().model_dump(),
    )


class Steps:
    """Tells each of ``total`` steps to ``report``, to the user's ``trackers``, and to ``watch``.

    A tracker that fails is reported, and called no more.
    """

    def __init__(
        self, total: int, report: Report, trackers: Sequence[str], watch: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._total = total
        self._report = report
        self._watch = watch
        self._trackers = list(trackers)
        self._seconds = deque[float](maxlen=10)  # of the last steps

    def add(self, record: Mapping[str, Any]) -> None:
        """Tell a step by what verl recorded of it."""
        self._seconds.append(seconds_of(record))
        self._report(step_event(record, self._total, self._seconds))
        for path in [*self._trackers]:
            try:
                named_in_errors(path)(record["step"], dict(record["data"]))
            except UserFunctionError as error:
                self._trackers.remove(path)
                warn(self._report, record["step"], f"{error}; this tracker gets no more steps")
        self._watch(record)


def _publish(folder: RunFolder, report: Report) -> None:
    """Publish the lineage in the runs of the trackers; the policy does not depend on them."""
    try:
        for line in publish(folder.path):
            progress(report, line)
    except InputError as error:
        progress(report, f"warning: {error}. Later: luffy train track --run {folder.path}")
