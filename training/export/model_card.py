"""The model card (``README.md``) of a policy folder: what the policy was trained on, how, and how well it does."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.files import write_text
from core.metric_table import REWARD
from core.model.lineage_file import MANIFEST, Manifest
from core.model.model_folder import HUB_ID
from training.config.verl_keys import leaf_values

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

SCORES = "## Scores"
CLOSING = f"`{MANIFEST}` next to this file has the whole configuration and the digests of all inputs."
# The settings that readers ask for first; all of them are in lineage.json.
SETTINGS = {
    "data.train_batch_size": "prompts per step",
    "actor_rollout_ref.rollout.n": "samples per prompt",
    "method.prefix.n": "off-policy samples among them",
    "method.off_policy.reshape.type": "shaping of off-policy tokens",
    "method.off_policy.reshape.gamma": "gamma of the shaping p_div_p",
    "method.advantage.baseline": "group mean over",
    "method.correction.type": "rollout correction",
    "data.max_prompt_length": "prompt tokens, at most",
    "data.max_response_length": "response tokens, at most",
    "actor_rollout_ref.actor.optim.lr": "learning rate",
    "actor_rollout_ref.rollout.temperature": "sampling temperature",
    "seed": "seed",
}
# Those of them that mean something without rollouts.
SFT_SETTINGS = ("data.train_batch_size", "data.max_prompt_length", "actor_rollout_ref.actor.optim.lr", "seed")

DATA_FILES = {".parquet", ".jsonl", ".ndjson", ".json", ".gz"}


@dataclass(frozen=True)
class Score:
    """The share of correct answers on a benchmark, with its 95% interval."""

    title: str
    mean: float
    low: float
    high: float
    problems: int
    k: int  # samples per problem


def model_card(manifest: Manifest, base_folder: Path | None = None) -> str:
    """Return the card of the policy that ``manifest`` describes: Markdown with the metadata that the hub reads.

    ``base_folder``: the base model, with the license on its card.
    """
    request, code, base, targets = manifest.request, manifest.code, manifest.base_model, manifest.targets
    supervised = manifest.config["objective"] == "sft"
    rows = [
        ("Recipe", f"{request.recipe}, {manifest.steps} steps on {request.hardware}"),
        ("Base model", f"`{base.path.name}`, digest `{base.digest[:16]}`"),
        ("Targets", f"{targets.rows:,} rows, digest `{targets.digest[:16]}`"),
        ("Code", f"commit {code.commit or 'unknown'}{', changed' if code.dirty else ''}"),
        ("Identity", f"`{manifest.identity[:16]}`"),
    ]
    values = dict(leaf_values(manifest.config))
    settings = SFT_SETTINGS if supervised else SETTINGS
    rows += [(SETTINGS[key].capitalize(), str(values[key])) for key in settings if values.get(key) is not None]
    rows += manifest.packages.items()
    lines = ["---", _metadata(manifest, base_folder).to_yaml(), "---", "", "# Trained policy", ""]
    lines += ["| | |", "|---|---|", *(f"| {_cell(name)} | {_cell(value)} |" for name, value in rows), ""]
    reward = manifest.last_step.get(REWARD)
    if reward is not None:
        lines += [f"Mean reward of its own samples in the last step: {reward:.3f}.", ""]
    if source := manifest.upstream.get("targets", {}).get("source"):
        lines += [f"The targets were prepared from {_cell(source)}.", ""]
    return "\n".join([*lines, SCORES, "", "Not evaluated yet.", "", CLOSING, ""])


def _metadata(manifest: Manifest, base: Path | None) -> "ModelCardData":
    """Return the metadata of the card, without unknown values, for which the hub would link to something else."""
    from huggingface_hub import ModelCardData, metadata_load
    from yaml import YAMLError

    try:
        of_base = (metadata_load(base / "README.md") if base else None) or {}
    except (OSError, ValueError, YAMLError):  # no card, or one that cannot be read
        of_base = {}
    return ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=[manifest.request.recipe],
        license=manifest.config.get("run", {}).get("license") or of_base.get("license"),
        base_model=_base_model(manifest, base),
        datasets=_datasets(manifest) or None,
    )


def _base_model(manifest: Manifest, base: Path | None) -> str:
    """Return its id on the hub if it came from there, or else the name of its folder."""
    cached = [part.split("--") for part in (base.parts if base else ()) if part.startswith("models--")]
    if cached:
        return "/".join(cached[-1][1:])
    source = manifest.upstream.get("base_model", {}).get("source", "")
    name = HUB_ID(source) if not Path(source).exists() else None
    return name["repository"] if name else manifest.base_model.path.name


def _datasets(manifest: Manifest) -> list[str]:
    """Return the datasets of the hub that the targets were pulled or prepared from."""
    recorded = manifest.targets.metadata
    if "hub" in recorded:
        return [recorded["hub"].partition("@")[0]]
    parts = json.loads(recorded.get("sources", "{}"))
    names = [name for name in json.loads(recorded.get("source", "[]")) if name in parts and HUB_ID(name)]
    return [name for name in names if Path(name).suffix not in DATA_FILES]


def write_scores(policy: Path, scores: Mapping[str, Score]) -> None:
    """Put ``scores``, by benchmark, into the card of the policy in folder ``policy``, and into its metadata."""
    from huggingface_hub import EvalResult, ModelCard

    file = policy / "README.md"
    card = ModelCard(file.read_text(encoding="utf-8"))
    card.data["model_name"] = policy.resolve().parent.name
    card.data["eval_results"] = [
        EvalResult(
            task_type="text-generation",
            dataset_type=name,
            dataset_name=score.title,
            metric_type="accuracy",
            metric_name=f"avg@{score.k}",
            metric_value=round(score.mean, 4),
            metric_args={"interval_95": [round(score.low, 4), round(score.high, 4)], "problems": score.problems},
        )
        for name, score in sorted(scores.items())
    ]
    before, _, _ = str(card).partition(f"{SCORES}\n")
    rows = [
        f"| {_cell(name)} | {score.mean:.1%} | {score.low:.1%} to {score.high:.1%} |"
        for name, score in sorted(scores.items())
    ]
    table = "\n".join(["| benchmark | score | 95% interval |", "|---|--:|--:|", *rows])
    write_text(f"{before}{SCORES}\n\n{table}\n\n{CLOSING}\n", file)


def _cell(value: str) -> str:
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
