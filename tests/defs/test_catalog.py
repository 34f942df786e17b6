"""What the UI's catalogue and `dg` say of the assets: owners, schedules, freshness, code, columns, options."""

import json
import os
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from core.errors import InputError
from core.schemas import BENCHMARK, GRADED, REJECTED, TARGET, TARGET_LOG_PROBS
from tests.defs.project import settings_of
from tests.defs.small_targets import OWN, TARGETS
from tests.defs.test_definitions import definitions, graph

ROOT = Path(__file__).resolve().parents[2]
DG = ROOT / ".venv" / "bin" / "dg"


def node(key: str, profile: str = "embedded", **settings: str) -> Any:
    return graph(profile, **settings).get(dg.AssetKey.from_user_string(key))


def code_of(asset: Any) -> Any:
    (reference,) = asset.metadata["dagster/code_references"].code_references
    return reference


def test_every_group_has_owners_and_the_settings_name_others():
    assert node("targets/train").owners == ["team:data"]
    assert node("training/metrics").owners == ["team:research"]
    named = {"LUFFY__CATALOG__OWNERS": "{targets: [ada@example.org, team:traces]}"}
    assert node("targets/train", **named).owners == ["ada@example.org", "team:traces"]
    assert node("registry/champion", **named).owners == ["team:platform"]


def test_what_the_weekly_run_materializes_is_expected_to_be_fresh():
    found, everything = graph("embedded"), definitions("embedded").resolve_job_def("everything")
    weekly = everything.asset_layer.executable_asset_keys
    for key in found.get_all_asset_keys():
        asset = found.get(key)
        policy = asset.freshness_policy
        assert (policy is not None) == (key in weekly) == (asset.tags.get("luffy/runs") == "weekly"), key
        if policy is not None:
            assert policy.warn_window.to_timedelta() == timedelta(days=8)
            assert policy.fail_window.to_timedelta() == timedelta(days=32)
    assert node("targets/train", LUFFY__CATALOG__FRESH_DAYS="null").freshness_policy is None
    often = node("targets/train", LUFFY__CATALOG__FRESH_DAYS="1.5").freshness_policy
    assert often.warn_window.to_timedelta() == timedelta(days=1.5)


def test_every_step_links_to_the_function_that_computes_it():
    found = graph("paper")
    for key in found.executable_asset_keys:
        reference = code_of(found.get(key))
        file = Path(reference.file_path)
        assert file.is_relative_to(ROOT / "assets"), key
        line = file.read_text(encoding="utf-8").splitlines()[reference.line_number - 1].strip()
        assert line.startswith(("@dg.asset(", "@dg.multi_asset(", "@observable(", "def _scorecard(")), (
            key,
            line,
        )


def test_the_links_lead_to_the_repository_that_the_settings_name():
    url = "https://github.com/me/luffy/blob/main"
    linked = code_of(node("report/scorecard", LUFFY__CATALOG__CODE_URL=f"{url}/")).url
    assert linked.startswith(f"{url}/assets/report.py#L")
    with pytest.raises(InputError, match=r"catalog\.code_url"):
        settings_of(LUFFY__CATALOG__CODE_URL="javascript:alert(1)")


def columns_of(metadata: dict[str, Any]) -> dict[str, set[str]]:
    lineage = metadata["dagster/column_lineage"].deps_by_column
    return {
        name: {f"{dep.asset_key.to_user_string()}:{dep.column_name}" for dep in deps} for name, deps in lineage.items()
    }


def test_the_columns_of_the_targets_lead_back_to_those_of_the_traces(build_on_small, tmp_path):
    traces = [
        {"question": f"What is {n} + 1?", "gold": f"{n + 1}", "trace": {"text": answer}, "other": "x"}
        for n in range(1, 9)
        for answer in [f"<think>\nAdding 1 to {n} gives {n + 1}.\n</think>\n\nIt is \\boxed{{{n + 1}}}."]
    ]
    file = tmp_path / "traces.jsonl"
    file.write_text("\n".join(json.dumps(trace) for trace in traces))
    mapping = "{problem: question, answer: gold, response: trace.text}"
    project = build_on_small(**OWN, targets__source=f"['{file}']", targets__mapping=mapping)
    assert project.run(*TARGETS).success
    prepared, rejected, train = (
        columns_of(project.metadata(f"targets/{n}")) for n in ("prepared", "rejected", "train")
    )
    assert prepared == {
        "prompt": {"targets/source:question"},
        "target": {"targets/source:trace"},
        "reward_model": {"targets/source:gold"},
    }
    assert rejected["gold"] == {"targets/source:gold"}
    assert train == {name: {f"targets/prepared:{name}"} for name in TARGET.names}


def test_the_lineage_of_columns_names_columns_that_exist():
    from assets.shared.column_lineage import GRADED_PARTS, REJECTED_PARTS, TARGET_PARTS
    from targets.source_settings import ColumnMapping

    assert set(GRADED_PARTS) <= set(GRADED.names)
    assert {part for parts in GRADED_PARTS.values() for part in parts} <= set(BENCHMARK.names)
    assert set(TARGET_PARTS) <= {*TARGET.names, TARGET_LOG_PROBS.name}
    assert set(REJECTED_PARTS) <= set(REJECTED.names)
    parts = {part for table in (TARGET_PARTS, REJECTED_PARTS) for parts in table.values() for part in parts}
    assert parts <= set(ColumnMapping.model_fields)


def test_dg_accepts_the_definitions(tmp_path):
    ours = ("LUFFY", "DAGSTER", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    command = [DG, "check", "defs"]
    environment["HOME"] = str(tmp_path)
    checked = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "warning" not in (checked.stdout + checked.stderr).lower()
