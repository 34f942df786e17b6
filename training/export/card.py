"""The model card, ``README.md``, of a policy folder: what it was trained on, how, and how it did."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.files import atomic_write

SCORES = "## Scores"
# What a reader of the card asks first; all of it, and the rest, is in lineage.json.
SETTINGS = {
    "data.train_batch_size": "prompts a step",
    "actor_rollout_ref.rollout.n": "samples a prompt",
    "mixed.prefix.n_prefix": "of them off-policy",
    "mixed.off_policy_reshape": "shaping of off-policy tokens",
    "mixed.baseline": "group mean over",
    "mixed.rollout_correction.type": "rollout correction",
    "data.max_prompt_length": "prompt tokens, at most",
    "data.max_response_length": "response tokens, at most",
    "actor_rollout_ref.actor.optim.lr": "learning rate",
    "actor_rollout_ref.rollout.temperature": "sampling temperature",
    "seed": "seed",
}
# Of those, the ones that mean something without rollouts.
SFT_SETTINGS = ("data.train_batch_size", "data.max_prompt_length", "actor_rollout_ref.actor.optim.lr", "seed")


def model_card(manifest: Mapping[str, Any]) -> str:
    """The card of the policy that ``manifest`` (``lineage.json``) describes: Markdown with the hub's front matter."""
    request, config, code = manifest["request"], manifest["config"], manifest["code"]
    base, targets = manifest["base_model"], manifest["targets"]
    supervised = config["objective"] == "sft"
    rows = [
        ("Recipe", f"{request['recipe']}, {manifest['steps']} steps on {request['hardware']}"),
        ("Base model", f"`{Path(base['path']).name}`, digest `{base['digest'][:16]}`"),
        ("Targets", f"{targets['rows']:,} rows, digest `{targets['digest'][:16]}`"),
        ("Code", f"commit {code['commit'] or 'unknown'}{', changed' if code['dirty'] else ''}"),
        ("Identity", f"`{manifest['identity'][:16]}`"),
    ]
    rows += [
        (title.capitalize(), f"{_lookup(config, key)}")
        for key, title in SETTINGS.items()
        if not supervised or key in SFT_SETTINGS
    ]
    rows += [(name, version) for name, version in manifest["packages"].items()]
    front = {"library_name": "transformers", "pipeline_tag": "text-generation", "tags": [request["recipe"]]}
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in front.items()), "---", "", "# Trained policy", ""]
    lines += ["| | |", "|---|---|", *(f"| {_cell(name)} | {_cell(value)} |" for name, value in rows), ""]
    reward = manifest["last_step"].get("reward/on_policy")
    if reward is not None:
        lines += [f"Mean reward of its own samples in the last step: {reward:.3f}.", ""]
    if source := manifest["upstream"].get("targets", {}).get("source"):
        lines += [f"Targets were prepared from {_cell(source)}.", ""]
    lines += [SCORES, "", "Not evaluated yet.", ""]
    lines += ["`lineage.json` beside this file has the whole configuration and the digests of all inputs.", ""]
    return "\n".join(lines)


def write_scores(policy: Path, scores: Mapping[str, float]) -> None:
    """Put ``scores`` (benchmark -> share that is right) into the card of the policy in folder ``policy``."""
    card = policy / "README.md"
    before, _, after = card.read_text(encoding="utf-8").partition(f"{SCORES}\n")
    # The section ends where the closing sentence starts.
    closing = after[after.rindex("`lineage.json`") :]
    rows = [f"| {_cell(name)} | {share:.1%} |" for name, share in sorted(scores.items())]
    table = "\n".join(["| benchmark | score |", "|---|--:|", *rows])
    with atomic_write(card) as temporary:
        temporary.write_text(f"{before}{SCORES}\n\n{table}\n\n{closing}", encoding="utf-8")


def _lookup(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value[part]
    return value


def _cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")
