"""Manifests of policies that no training wrote."""

from pathlib import Path
from typing import Any

from core.model.lineage_file import CodeRecord, InputRecord, Manifest, RequestRecord, TargetsRecord

CONFIG = {
    "objective": "rl",
    "seed": 0,
    "data": {"train_batch_size": 4, "max_prompt_length": 64, "max_response_length": 96},
    "actor_rollout_ref": {"rollout": {"n": 8, "temperature": 1.0}, "actor": {"optim": {"lr": 1e-6}}},
    "method": {
        "type": "luffy",
        "prefix": {"n": 1},
        "off_policy": {"reshape": {"type": "p_div_p", "gamma": 0.1}},
        "advantage": {"baseline": "all_samples"},
        "correction": {"type": "tis"},
    },
}


def request(**changes: Any) -> RequestRecord:
    values = {"recipe": "luffy", "hardware": "cpu", "overrides": (), "seed": 0}
    return RequestRecord(**{**values, "targets_digest": "t" * 64, "model_digest": "b" * 64, **changes})


def targets(**changes: Any) -> TargetsRecord:
    return TargetsRecord(**{"path": "train.parquet", "digest": "t" * 64, "rows": 1234, "metadata": {}, **changes})


def manifest(**changes: Any) -> Manifest:
    """A manifest with ``changes`` to its fields."""
    values = {
        "identity": "i" * 64,
        "request": request(),
        "config": CONFIG,
        "steps": 4,
        "targets": targets(),
        "base_model": InputRecord(path=Path("models/some|base"), digest="b" * 64),
        "code": CodeRecord(commit="c0ffee", dirty=True, digest="d" * 64),
        "packages": {"torch": "2.13.0"},
        "upstream": {"targets": {"source": "Elliott/Openr1"}},
        "last_step": {"reward/on_policy": 0.5},
        "attempts": 1,
        "device_hours": 0.05,
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:03:00+00:00",
    }
    return Manifest(**{**values, **changes})
