"""Run one training job from its request to its policy folder.

The launcher composes and checks the configuration, starts verl under the supervisor, follows the metrics while they
are written, and turns the last checkpoint into ``policy/`` with its lineage. Layout of the run folder:

    config.yaml          resolved configuration
    attempts/0001.jsonl  step metrics of an attempt    attempts/0001.log  its output
    metrics.jsonl        step metrics of the run, written when it ends
    checkpoints/         verl's checkpoints            rollouts/          samples of every step
    policy/              Hugging Face model, tokenizer, lineage.json: complete or absent
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from evaluation.errors import InputError
from evaluation.files import atomic_write
from training.checkpoints import LATEST, export_policy, latest_step
from training.configuration import PROJECT, compose_run
from training.inputs import check_context, check_targets
from training.lineage import MANIFEST, TrainingRequest, code_state, package_versions, read_manifest
from training.metrics import MetricsFile, merge_attempts

POLL_SECONDS = 0.5
LOG_TAIL_LINES = 30
Report = Callable[[dict[str, Any]], None]


class TrainingFailed(RuntimeError):
    """The training process ended with an error; the message holds the reason and where the whole log is."""


@dataclass(frozen=True)
class Job:
    """A request with its places: the targets and the base model to read, the folder to write."""

    request: TrainingRequest
    targets: Path
    model: Path
    out: Path
    upstream: Mapping[str, Any]  # what the caller knows of where targets and model came from

    @property
    def policy(self) -> Path:
        return self.out / "policy"


def run_job(job: Job, report: Report, *, force: bool = False) -> bool:
    """Train unless a policy of the same identity is there; True if one was reused.

    ``report`` receives ``{"event": "progress" | "step" | "done", …}`` dictionaries.
    """
    overrides = (f"seed={job.request.seed}", *job.request.overrides)
    config = compose_run(job.request.recipe, job.request.hardware, overrides, run=job.out.resolve())
    check_context(job.model, config)
    targets = check_targets(job.targets, job.model, config)
    if not force and _reusable(job):
        report({"event": "done", "policy": str(job.policy), "reused": True})
        return True
    with open_dict(config):
        config.data.train_files = str(job.targets.resolve())
        config.data.val_files = config.data.train_files  # verl wants a file; scores come from evaluation/
        config.actor_rollout_ref.model.path = str(job.model.resolve())
        environment = dict(config.pop("environment"))
    job.out.mkdir(parents=True, exist_ok=True)
    with atomic_write(job.out / "config.yaml") as temporary:
        OmegaConf.save(config, temporary, resolve=True)
    if force:
        (job.out / "checkpoints" / LATEST).unlink(missing_ok=True)

    attempt = len(list((job.out / "attempts").glob("*.log"))) + 1
    started = datetime.now(UTC)
    _train(job, config, environment, attempt, report)
    records = merge_attempts(sorted((job.out / "attempts").glob("*.jsonl")), job.out / "metrics.jsonl")
    report({"event": "progress", "stage": "training", "message": "writing the policy"})
    manifest = {
        "identity": job.request.identity(),
        "request": asdict(job.request),
        "config": OmegaConf.to_container(OmegaConf.load(job.out / "config.yaml")),
        "targets": {"path": str(job.targets), "digest": job.request.targets_digest, **targets},
        "base_model": {"path": str(job.model), "digest": job.request.model_digest},
        "upstream": dict(job.upstream),
        "code": code_state(),
        "packages": package_versions(),
        "attempts": attempt,
        "started": started.isoformat(),
        "finished": datetime.now(UTC).isoformat(),
        "steps": latest_step(job.out / "checkpoints"),
        "last_step": records[-1]["data"] if records else {},
    }
    export_policy(job.out / "checkpoints", job.policy, manifest)
    report({"event": "done", "policy": str(job.policy), "reused": False})
    return False


def _reusable(job: Job) -> bool:
    if not (job.policy / MANIFEST).exists():
        return False
    return read_manifest(job.policy)["identity"] == job.request.identity()


def _train(job: Job, config: DictConfig, environment: Mapping[str, str], attempt: int, report: Report) -> None:
    """Run verl under the supervisor to its end, reporting each step; TrainingFailed with the reason otherwise."""
    folder = job.out / "attempts"
    folder.mkdir(exist_ok=True)
    log, metrics = folder / f"{attempt:04}.log", MetricsFile(folder / f"{attempt:04}.jsonl")
    total, done = config.trainer.total_training_steps, latest_step(job.out / "checkpoints")
    if done:
        report({"event": "progress", "stage": "training", "message": f"resuming after step {done} of {total}"})
    report({"event": "progress", "stage": "training", "message": "starting Ray, vLLM and the actor"})
    command = [sys.executable, "-m", "training.mixed.main", str((job.out / "config.yaml").resolve())]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "training.supervisor", "--", *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=PROJECT,
            env={
                **os.environ,
                "PYTHONPATH": str(PROJECT),
                "PYTHONUNBUFFERED": "1",
                "RAY_USAGE_STATS_ENABLED": "0",
                "TENSORBOARD_DIR": str((job.out / "tensorboard").resolve()),
                "VERL_FILE_LOGGER_PATH": str(metrics.path.resolve()),
                **environment,
            },
        )
        try:
            seconds: deque[float] = deque(maxlen=10)  # of the last steps
            while True:
                ended = process.poll() is not None
                for record in metrics.new_records():
                    seconds.append(record["data"]["timing_s/step"])
                    report(_step_event(record, total, seconds))
                if ended:
                    break
                time.sleep(POLL_SECONDS)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait()
    if process.returncode != 0:
        raise TrainingFailed(f"{_reason(log, process.returncode)}\nthe whole log: {log}")


def _step_event(record: Mapping[str, Any], total: int, seconds: Collection[float]) -> dict[str, Any]:
    """A step with the time left, from the mean of the last steps."""
    left = sum(seconds) / len(seconds) * (total - record["step"])
    return {
        "event": "step",
        "step": record["step"],
        "total": total,
        "metrics": record["data"],
        "seconds_left": round(left, 1),
    }


def _reason(log: Path, status: int) -> str:
    """The last error that the log names, else its last lines."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in log.read_text(errors="replace").splitlines()]
    errors = [line for line in lines if re.search(r"\b(?:[A-Z]\w*(?:Error|Exception)|InputError)\b: ", line)]
    if status > 128:
        return f"training was stopped by signal {signal.Signals(status - 128).name}"
    # Ray repeats the remote traceback; its last named error is the cause seen by the driver.
    tail = errors[-1:] or lines[-LOG_TAIL_LINES:]
    return "training failed: " + "\n".join(line.strip() for line in tail)


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
