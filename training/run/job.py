"""Run one training job from its request to its policy folder.

It composes and checks the configuration, starts verl (`backends`), follows the metrics while they
are written (``training.run.attempts``), and turns the last checkpoint into ``policy/``. Layout of the run folder:

    request.json         what the run was asked for    config.yaml        resolved configuration
    attempts/0001.jsonl  step metrics of an attempt    attempts/0001.log  its output    attempts/0001.json  how it ended
    metrics.jsonl        step metrics of the run, written when it ends
    checkpoints/         verl's checkpoints            rollouts/          samples of every step
    first_stage/         the run folder of the first stage, for recipes that have one
    policy/              Hugging Face model, tokenizer, lineage.json, model card: complete or absent
"""

import fcntl
import importlib.util
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from core.errors import InputError
from core.files import atomic_write, digest_bytes, write_json
from core.manifest import MANIFEST, read_manifest
from training.export.hub import push_to_hub
from training.run.attempts import Attempt, Report, attempts, follow
from training.run.backends import Task, build_backend
from training.run.checkpoints import discard_incomplete, export_policy, latest_step
from training.run.configuration import PROJECT, compose_run
from training.run.inputs import check_context, check_targets
from training.run.lineage import TrainingRequest, code_state, package_versions
from training.run.metrics import merge_attempts

LOCK_SECONDS = 60.0  # how long the processes of a killed training command may take to end
TRACKERS = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb"}  # name -> module


@dataclass(frozen=True)
class Job:
    """A request with its places: the targets and the base model to read, the folder to write.

    ``heldout``: targets that ``targets`` has no prompt of, for recipes with a first stage.
    """

    request: TrainingRequest
    targets: Path
    model: Path
    out: Path
    upstream: Mapping[str, Any]  # what the caller knows of where targets and model came from
    heldout: Path | None = None

    @property
    def policy(self) -> Path:
        return self.out / "policy"


def run_job(job: Job, report: Report, *, force: bool = False) -> bool:
    """Train unless a policy of the same identity is there; True if one was reused.

    ``report`` receives ``{"event": "progress" | "step" | "done", …}`` dictionaries.
    """
    overrides = (f"seed={job.request.seed}", *job.request.overrides)
    config = compose_run(job.request.recipe, job.request.hardware, overrides, run=job.out.resolve())
    _check_trackers(config)
    staged = config.first_stage is not None
    if staged and job.heldout is None:
        raise InputError(f"recipe {job.request.recipe}: its second stage trains on held-out targets: give --heldout")
    data = job.heldout if staged and job.heldout is not None else job.targets
    check_context(job.model, config)
    targets = check_targets(data, job.model, config)
    job.out.mkdir(parents=True, exist_ok=True)
    with _locked(job.out) as lock:
        reused = not force and _reusable(job)
        if not reused:
            _claim(job, force=force)
            first = _first_stage(job, config, report, force=force) if staged else None
            environment = _complete(config, data=data, model=first.policy if first else job.model)
            with atomic_write(job.out / "config.yaml") as temporary:
                OmegaConf.save(config, temporary, resolve=True)
            _train(job, config, environment, lock, report)
            report({"event": "progress", "stage": "training", "message": "writing the policy"})
            export_policy(job.out / "checkpoints", job.policy, _manifest(job, config, data, targets, first))
        if config.run.push_to_hub:
            report({"event": "progress", "stage": "training", "message": f"uploading to {config.run.push_to_hub}"})
            push_to_hub(job.policy, config.run.push_to_hub)
    report({"event": "done", "policy": str(job.policy), "reused": reused})
    return reused


def _reusable(job: Job) -> bool:
    if not (job.policy / MANIFEST).exists():
        return False
    return read_manifest(job.policy)["identity"] == job.request.identity()


def _claim(job: Job, *, force: bool) -> None:
    """Make the run folder that of ``job``; InputError if a policy, or checkpoints, of another request are in it."""
    file, checkpoints = job.out / "request.json", job.out / "checkpoints"
    if force:
        shutil.rmtree(checkpoints, ignore_errors=True)
    elif (job.policy / MANIFEST).exists():
        raise InputError(
            f"{job.out}: has a policy of other inputs, settings or code: give --out another folder, or --force to "
            "train anew there"
        )
    elif latest_step(checkpoints) and json.loads(file.read_text(encoding="utf-8")) != job.request.wanted():
        raise InputError(
            f"{job.out}: has the checkpoints of a training with other inputs or settings, see {file.name} in it: give "
            "--out another folder, or --force to train anew there"
        )
    write_json(job.request.wanted(), file)


def _check_trackers(config: DictConfig) -> None:
    for name in config.run.trackers:
        if name not in TRACKERS:
            raise InputError(f"run.trackers: got {name!r}, expected some of {', '.join(TRACKERS)}")
        if importlib.util.find_spec(TRACKERS[name]) is None:
            raise InputError(f"run.trackers: {name} is not installed: {sys.executable} -m pip install {name}")


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold the run folder for ourselves, and for what runs of us; InputError if others hold it for a minute."""
    with (folder / ".lock").open("w") as file:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InputError(
                        f"{folder}: another training runs in it: wait for it, or give --out another folder"
                    ) from None
                time.sleep(0.5)
        yield file.fileno()


def _complete(config: DictConfig, *, data: Path, model: Path) -> dict[str, str]:
    """Fill in the inputs; returns the environment of the training process, which is no part of the configuration."""
    with open_dict(config):
        config.data.train_files = str(data.resolve())
        config.data.val_files = config.data.train_files  # verl wants a file; scores come from evaluation/
        config.actor_rollout_ref.model.path = str(model.resolve())
        config.trainer.logger = ["console", "file", *config.run.trackers]
        return dict(config.pop("environment"))


def _first_stage(job: Job, config: DictConfig, report: Report, *, force: bool) -> Job:
    """Run the first stage in its own folder, or reuse it; its policy is what the second starts from."""
    shared = [text for text in job.request.overrides if not text.startswith(("first_stage", "run.push_to_hub"))]
    request = replace(
        job.request,
        recipe=config.first_stage.recipe,
        overrides=(*shared, *config.first_stage.set),
        heldout_digest=None,
    )
    first = Job(request, job.targets, job.model, job.out / "first_stage", job.upstream)

    def passed_on(event: dict[str, Any]) -> None:
        if event["event"] == "done":
            message = f"first stage: {'reused' if event['reused'] else 'wrote'} {event['policy']}"
            event = {"event": "progress", "stage": "training", "message": message}
        report(event)

    run_job(first, passed_on, force=force)
    return first


def _train(job: Job, config: DictConfig, environment: Mapping[str, str], lock: int, report: Report) -> None:
    """Run the next attempt to its end, or the last one if it still runs; nothing where all steps are done."""
    folder = job.out / "attempts"
    folder.mkdir(exist_ok=True)
    backend = build_backend(OmegaConf.to_container(config.run), lock)

    def task(attempt: Attempt) -> Task:
        # A folder holds one run, whose number of attempts says which this is; a new version of the code finds it too.
        place = digest_bytes(str(job.out.resolve()).encode())[:16]
        return Task(
            name=f"luffy-{job.request.recipe}-{place}-{attempt.number}",
            module=("training.mixed.main", str((job.out / "config.yaml").resolve())),
            environment={
                "PYTHONPATH": str(PROJECT),
                "PYTHONUNBUFFERED": "1",
                "RAY_USAGE_STATS_ENABLED": "0",
                "TENSORBOARD_DIR": str((job.out / "tensorboard").resolve()),
                "WANDB_DIR": str(job.out.resolve()),
                "VERL_FILE_LOGGER_PATH": str(attempt.metrics.resolve()),
                "MLFLOW_TRACKING_URI": os.environ.get(
                    "MLFLOW_TRACKING_URI", f"sqlite:///{(job.out / 'mlflow.db').resolve()}"
                ),
                **environment,
            },
            log=attempt.log,
        )

    total, earlier = config.trainer.total_training_steps, attempts(folder)
    if earlier and backend.reattach(task(earlier[-1])):
        attempt, done = earlier[-1], latest_step(job.out / "checkpoints")
    else:
        attempt, done = Attempt(folder, len(earlier) + 1), discard_incomplete(job.out / "checkpoints")
        if done >= total:
            return
    stall = config.run.stall_seconds
    follow(attempt, backend, task(attempt), total=total, done=done, stall_seconds=stall, report=report)


def _manifest(
    job: Job, config: DictConfig, data: Path, targets: Mapping[str, Any], first: Job | None
) -> dict[str, Any]:
    """What ``lineage.json`` says; writes ``metrics.jsonl`` on the way."""
    done = attempts(job.out / "attempts")
    devices, price = config.trainer.nnodes * config.trainer.n_gpus_per_node, config.run.device_hour_price
    records = merge_attempts([a.metrics for a in done], job.out / "metrics.jsonl", devices=devices, price=price)
    hours = devices * sum(attempt.seconds() for attempt in done) / 3600
    times = [json.loads(attempt.record.read_text(encoding="utf-8")) for attempt in done]
    manifest = {
        "identity": job.request.identity(),
        "request": asdict(job.request),
        "config": OmegaConf.to_container(OmegaConf.load(job.out / "config.yaml")),
        "targets": {
            "path": str(data),
            "digest": job.request.heldout_digest if first else job.request.targets_digest,
            **targets,
        },
        "base_model": {"path": str(job.model), "digest": job.request.model_digest},
        "upstream": dict(job.upstream),
        "code": code_state(),
        "packages": package_versions(),
        "attempts": len(done),
        "started": times[0]["started"],
        "finished": times[-1].get("ended"),
        "device_hours": round(hours, 4),
        "cost": round(price * hours, 2) if price else None,
        "steps": latest_step(job.out / "checkpoints"),
        "last_step": records[-1]["data"] if records else {},
    }
    if first is not None:
        before = read_manifest(first.policy)
        kept = ("identity", "request", "targets", "attempts", "device_hours", "cost", "steps", "checkpoint_digest")
        manifest["first_stage"] = {name: before[name] for name in kept}
    return manifest


def print_report(event: Mapping[str, Any]) -> None:
    """Write an event as one line on the terminal."""
    match event["event"]:
        case "step":
            reward = event["metrics"].get("reward/on_policy")
            shown = "" if reward is None else f", reward {reward:.2f}"
            line = f"step {event['step']} of {event['total']}{shown}, {event['seconds_left']:.0f} s left"
        case "done":
            line = f"{'reused' if event['reused'] else 'wrote'} {event['policy']}"
        case _:
            line = event["message"]
    sys.stdout.write(f"training: {line}\n")
    sys.stdout.flush()


def read_upstream(path: Path | None) -> dict[str, Any]:
    """The caller's account of the inputs (a JSON object), {} without one."""
    if path is None:
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"--lineage {path}: not a readable JSON file ({error})") from error
