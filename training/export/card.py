"""The model card (``README.md``) of a policy folder: what the policy was trained on, how, and how well it does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.files import atomic_write
from core.manifest import MANIFEST, Manifest

SCORES = "## Scores"
CLOSING = f"`{MANIFEST}` beside this file has the whole configuration and the digests of all inputs."
# The settings that readers ask for first; all of them are in lineage.json.
SETTINGS = {
    "data.train_batch_size": "prompts per step",
    "actor_rollout_ref.rollout.n": "samples per prompt",
    "mixed.prefix.n_prefix": "off-policy samples among them",
    "mixed.off_policy_reshape": "shaping of off-policy tokens",
    "mixed.baseline": "group mean over",
    "mixed.rollout_correction.type": "rollout correction",
    "data.max_prompt_length": "prompt tokens, at most",
    "data.max_response_length": "response tokens, at most",
    "actor_rollout_ref.actor.optim.lr": "learning rate",
    "actor_rollout_ref.rollout.temperature": "sampling temperature",
    "seed": "seed",
}
# Those of them that mean something without rollouts.
SFT_SETTINGS = ("data.train_batch_size", "data.max_prompt_length", "actor_rollout_ref.actor.optim.lr", "seed")


def model_card(manifest: Manifest) -> str:
    """The card of the policy that ``manifest`` describes: Markdown with the metadata that the hub reads."""
    from huggingface_hub import ModelCardData

    request, code, base, targets = manifest.request, manifest.code, manifest.base_model, manifest.targets
    supervised = manifest.config["objective"] == "sft"
    rows = [
        ("Recipe", f"{request.recipe}, {manifest.steps} steps on {request.hardware}"),
        ("Base model", f"`{base.path.name}`, digest `{base.digest[:16]}`"),
        ("Targets", f"{targets.rows:,} rows, digest `{targets.digest[:16]}`"),
        ("Code", f"commit {code.commit or 'unknown'}{', changed' if code.dirty else ''}"),
        ("Identity", f"`{manifest.identity[:16]}`"),
    ]
    rows += [
        (title.capitalize(), str(_lookup(manifest.config, key)))
        for key, title in SETTINGS.items()
        if not supervised or key in SFT_SETTINGS
    ]
    rows += manifest.packages.items()
    data = ModelCardData(library_name="transformers", pipeline_tag="text-generation", tags=[request.recipe])
    lines = ["---", data.to_yaml(), "---", "", "# Trained policy", ""]
    lines += ["| | |", "|---|---|", *(f"| {_cell(name)} | {_cell(value)} |" for name, value in rows), ""]
    reward = manifest.last_step.get("reward/on_policy")
    if reward is not None:
        lines += [f"Mean reward of its own samples in the last step: {reward:.3f}.", ""]
    if source := manifest.upstream.get("targets", {}).get("source"):
        lines += [f"The targets were prepared from {_cell(source)}.", ""]
    return "\n".join([*lines, SCORES, "", "Not evaluated yet.", "", CLOSING, ""])


def write_scores(policy: Path, scores: Mapping[str, float]) -> None:
    """Put ``scores`` (benchmark -> share of correct answers) into the card of the policy in folder ``policy``."""
    card = policy / "README.md"
    before, _, _ = card.read_text(encoding="utf-8").partition(f"{SCORES}\n")
    rows = [f"| {_cell(name)} | {share:.1%} |" for name, share in sorted(scores.items())]
    table = "\n".join(["| benchmark | score |", "|---|--:|", *rows])
    with atomic_write(card) as temporary:
        temporary.write_text(f"{before}{SCORES}\n\n{table}\n\n{CLOSING}\n", encoding="utf-8")


def _lookup(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value[part]
    return value


def _cell(value: str) -> str:
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
