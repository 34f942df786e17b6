"""Create the runs of a training in MLflow and W&B, and publish its lineage and scorecard there.

The runs are opened before the first attempt and named in ``trackers.json``. verl logs the steps of all attempts into
them. The finished training, and the scorecard of its policy, are published into the same runs.
"""

import importlib.util
import json
import os
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, StringConstraints

from core.errors import InputError, first_line, validated
from core.files import digest_bytes, read_object, write_json
from core.model.lineage_file import MANIFEST, Manifest, parse_manifest
from core.text.secrets import redact

FILE = "trackers.json"  # file in the folder of the run
PREFIX = "luffy."  # prefix of our tags and parameters, next to verl's
ROLES = ("base", "policy", "champion")
ANSWER_SECONDS = 10.0
MLFLOW_DIGEST = 36  # characters that MLflow keeps of a digest; the whole one is in the tags


class Runs(BaseModel):
    """The content of ``trackers.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: str  # digest of the configuration
    name: str
    runs: dict[Annotated[str, StringConstraints(pattern="^(mlflow|wandb)$")], dict[str, str]]  # by tracker


class Publication(NamedTuple):
    """What the runs of a training show: files by the place of theirs, and scores by metric."""

    folder: Path
    name: str
    manifest: Manifest
    files: Mapping[str, Sequence[Path]]
    scores: Mapping[str, float]


def open_runs(folder: Path, trackers: Sequence[str], *, project: str, name: str, config: str) -> dict[str, str]:
    """Open a run per tracker, or go on with those that are named in ``folder``.

    Args:
        folder: Folder of the training.
        trackers: their names; others than mlflow and wandb have no runs.
        project: the experiment of MLflow and the project of W&B.
        name: Name of the runs.
        config: the resolved configuration. MLflow refuses another for the same run, so it gets a new run.

    Returns:
        The variables that make verl use the runs.

    Raises:
        InputError: a tracker does not answer.
    """
    recorded = _read(folder)
    digest = digest_bytes(config.encode())
    runs = recorded.runs if recorded and recorded.config == digest else {}
    opened: dict[str, dict[str, str]] = {}
    variables: dict[str, str] = {}
    if "mlflow" in trackers:
        opened["mlflow"] = runs.get("mlflow") or _open_mlflow(folder, project, name)
        variables |= {"MLFLOW_TRACKING_URI": mlflow_address(folder), "MLFLOW_RUN_ID": opened["mlflow"]["run"]}
        _check_answers(mlflow_address(folder))
    if "wandb" in trackers:
        opened["wandb"] = runs.get("wandb") or {"run": uuid.uuid4().hex[:8], "project": project}
        variables |= {"WANDB_RUN_ID": opened["wandb"]["run"], "WANDB_RESUME": "allow"}
    if opened:
        write_json(Runs(config=digest, name=name, runs=opened).model_dump(), folder / FILE)
    return variables


def publish(folder: Path, scorecard: Path | None = None) -> list[str]:
    """Publish the lineage of the training in ``folder`` in its runs; return a line about each run.

    Args:
        folder: Folder of a training with a complete policy.
        scorecard: folder of the scorecard of its policy.

    Raises:
        InputError: there is no policy, or a tracker is not installed or does not answer.
    """
    if (recorded := _read(folder)) is None:
        return []
    for tracker in recorded.runs:
        if importlib.util.find_spec(tracker) is None:
            raise InputError(f"{folder / FILE}: {tracker} is not installed: {sys.executable} -m pip install {tracker}")
    files = {"lineage": [folder / "policy" / MANIFEST]}
    scores = dict[str, float]()
    if scorecard is not None:
        files["scorecard"] = sorted(scorecard.glob("scorecard.*"))
        rows = read_object(scorecard / "scorecard.json")["rows"]
        roles = [(row["base"]["benchmark"], role, row.get(role)) for row in rows for role in ROLES]
        scores = {f"scorecard/{benchmark}/{role}": of["mean"] for benchmark, role, of in roles if of}
    publication = Publication(folder, recorded.name, parse_manifest(folder / "policy"), files, scores)
    publishers = {"mlflow": _publish_mlflow, "wandb": _publish_wandb}
    return [publishers[tracker](publication, run) for tracker, run in recorded.runs.items()]


def _read(folder: Path) -> Runs | None:
    if not (folder / FILE).is_file():
        return None
    return validated(Runs, read_object(folder / FILE), f"{folder / FILE}: ", "; remove it to start separate runs")


def facts(manifest: Manifest) -> dict[str, str]:
    """Return the facts about a policy that a run shows, by name."""
    values = {
        "identity": manifest.identity,
        "recipe": manifest.request.recipe,
        "hardware": manifest.request.hardware,
        "seed": manifest.request.seed,
        "checkpoint_digest": manifest.checkpoint_digest,
        "targets_digest": manifest.targets.digest,
        "targets_rows": manifest.targets.rows,
        "base_model_digest": manifest.base_model.digest,
        "code_digest": manifest.code.digest,
        "code_commit": manifest.code.commit,
        "dagster_run": manifest.upstream.get("dagster_run"),
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def mlflow_address(folder: Path) -> str:
    """Return the server of ``MLFLOW_TRACKING_URI``, or else a database in the folder of the run."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"


def _open_mlflow(folder: Path, project: str, name: str) -> dict[str, str]:
    with _mlflow(folder) as client:
        experiment = client.get_experiment_by_name(project)
        if experiment is None:
            # Without a server MLflow would write artifacts to the folder where it happens to be started.
            local = None if os.environ.get("MLFLOW_TRACKING_URI") else (folder.resolve() / "mlartifacts").as_uri()
            number = client.create_experiment(project, artifact_location=local)
        else:
            number = experiment.experiment_id
        run = client.create_run(number, run_name=name)
    return {"run": run.info.run_id, "experiment": number}


def _publish_mlflow(publication: Publication, run: Mapping[str, str]) -> str:
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

    folder, name, manifest, files, scores = publication
    described, targets = facts(manifest), manifest.targets
    source = json.dumps({"uri": targets.locate(folder / "policy").as_uri()})
    profile = json.dumps({"rows": targets.rows, "sha256": targets.digest})
    dataset = Dataset("targets", targets.digest[:MLFLOW_DIGEST], "local", source, profile=profile)
    with _mlflow(folder) as client:
        client.log_inputs(run["run"], datasets=[DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])])
        now = int(Path(files["lineage"][0]).stat().st_mtime * 1000)
        client.log_batch(
            run["run"],
            params=[Param(PREFIX + key, value) for key, value in described.items()],
            tags=[RunTag(PREFIX + key, value) for key, value in described.items()],
            metrics=[Metric(key, value, now, manifest.steps) for key, value in scores.items()],
        )
        for place, paths in files.items():
            for path in paths:
                client.log_artifact(run["run"], str(path), place)
        client.set_terminated(run["run"])
    return f"mlflow: {redact(mlflow_address(folder))} has run {run['run']} of {name}"


@contextmanager
def _mlflow(folder: Path) -> Iterator[Any]:
    """Yield a client of MLflow; its errors are InputErrors."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    address = mlflow_address(folder)
    _check_answers(address)
    try:
        yield MlflowClient(tracking_uri=address)
    except (MlflowException, OSError) as error:
        raise InputError(
            f"run.trackers: MLflow at {redact(address)}: {redact(first_line(error))}; mend the server or "
            "MLFLOW_TRACKING_URI, or leave mlflow out"
        ) from error


def _check_answers(address: str) -> None:
    """Raise InputError if nothing listens at ``address``; MLflow's client would try for minutes."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        return
    try:
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        socket.create_connection((parts.hostname, port), ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"run.trackers: no MLflow server answers at {redact(address)} ({error}): start it, correct "
            "MLFLOW_TRACKING_URI, or leave mlflow out"
        ) from error


def _publish_wandb(publication: Publication, run: Mapping[str, str]) -> str:
    import wandb

    folder, name, manifest, files, scores = publication
    described = facts(manifest)
    with wandb.init(
        project=run["project"],
        id=run["run"],
        name=name,
        resume="allow",
        dir=str(folder),
        settings=wandb.Settings(silent=True),
    ) as opened:
        opened.config.update({"luffy": described}, allow_val_change=True)
        opened.summary.update(dict(scores))
        for place, paths in files.items():
            artifact = wandb.Artifact(f"{place}-{manifest.checkpoint_digest[:16]}", type=place, metadata=described)
            for path in paths:
                artifact.add_file(str(path))
            opened.log_artifact(artifact)
        where = f"{folder / 'wandb'} (offline: wandb sync uploads it)" if opened.offline else opened.url
    return f"wandb: {where} has run {run['run']} of {name}"
