"""Our definitions inside the Dagster project of another team, set up by the lines of docs/dagster-project.md."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from processes import clean_environment
from storages import read_reference

from core.errors import InputError
from pipelines.embedding import luffy_definitions
from tests.defs.project import message

ROOT = Path(__file__).resolve().parents[2]
SECTION = "Inside another Dagster project"
# What `create-dagster project their_project` (1.13.27) writes, and an asset, a resource and an executor of theirs.
PYPROJECT = """
[project]
name = "their_project"
requires-python = ">=3.10,<3.15"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "their_project"
registry_modules = ["their_project.components.*"]

[tool.dg.cli]
suppress_warnings = ["project_and_activated_venv_mismatch"]
"""
DEFINITIONS = """
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
THEIRS = r"""
import json
from pathlib import Path

import dagster as dg

FILE = Path(__file__).parents[3] / "data" / "traces.jsonl"


@dg.asset(key=["raw", "traces"], group_name="targets")
def traces() -> dg.MaterializeResult:
    FILE.parent.mkdir(exist_ok=True)
    rows = [
        {
            "problem": f"{k}+{k}=?",
            "answer": str(2 * k),
            "response": f"<think>\nTwice {k} is {2 * k}.\n</think>\n\nIt is \\boxed{{{2 * k}}}.",
        }
        for k in range(11, 41)
    ]
    FILE.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return dg.MaterializeResult(metadata={"path": dg.MetadataValue.path(str(FILE))})


@dg.asset(key=["models", "base"], group_name="models")
def base() -> int:
    return 7


everything = dg.define_asset_job("everything", selection=dg.AssetSelection.assets(["models", "base"]))


@dg.definitions
def defs():
    folder = FILE.parents[1] / "theirs"
    manager = dg.FilesystemIOManager(base_dir=str(folder))
    resources = {"io_manager": manager, "storage": 3}
    return dg.Definitions(
        assets=[traces, base], jobs=[everything], resources=resources, executor=dg.in_process_executor
    )
"""
MATERIALIZE = """
import json
import dagster as dg
from their_project.definitions import defs

merged = defs()
dg.Definitions.validate_loadable(merged)
ours = ["models/base", "benchmarks/suite", "targets/prepared", "targets/rejected", "targets/train"]
keys = ["raw/traces", "models/base", *(f"reasoner/{key}" for key in ours)]
with dg.DagsterInstance.ephemeral() as instance:
    result = merged.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey.from_user_string(key) for key in keys]
    )
    failed = [check.check_name for check in result.get_asset_check_evaluations() if not check.passed]
    event = instance.get_latest_materialization_event(dg.AssetKey(["reasoner", "targets", "prepared"]))
    metadata = {name: entry.value for name, entry in event.asset_materialization.metadata.items()}
    lineage = metadata["dagster/column_lineage"].deps_by_column["target"][0].asset_key.to_user_string()
graph, source = merged.resolve_asset_graph(), dg.AssetKey(["reasoner", "targets", "source"])
print(json.dumps({
    "success": result.success,
    "checks": len(result.get_asset_check_evaluations()),
    "rows": metadata["dagster/row_count"],
    "source": lineage,
    "parents": sorted(key.to_user_string() for key in graph.get(source).parent_keys),
    "jobs": [job.name for job in merged.resolve_all_job_defs()],
    "groups": sorted({node.group_name for node in graph.asset_nodes}),
}))
"""

SMALL = """
  min_rows: 10
benchmarks:
  limit: 2
training:
  config:
    data: {train_batch_size: 4, max_prompt_length: 64, max_response_length: 144}
    actor_rollout_ref: {rollout: {n: 4}}
    trainer: {total_training_steps: 2, save_freq: 2}
"""


def documented(project: Path) -> dict[str, str]:
    """The blocks of the page's section by what they are, with the paths of this test."""
    page = (ROOT / "docs" / "dagster-project.md").read_text(encoding="utf-8")
    section = re.split(r"^## (.*)$", page, flags=re.MULTILINE)
    text = dict(zip(section[1::2], section[2::2], strict=True))[SECTION]
    blocks = re.findall(r"^```(?:python|yaml)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    names = ("definitions", "component", "profile", "workspace")
    venv = str(Path(sys.executable).parents[1])
    return {
        name: block.replace("/data/reasoner", str(project / "reasoner"))
        .replace("/path/to/luffy/.venv", venv)
        .replace("/path/to/luffy", str(ROOT))
        for name, block in zip(names, blocks, strict=True)
    }


@pytest.fixture
def their_project(tmp_path: Path) -> Path:
    """The files of a project of another team."""
    package = tmp_path / "src" / "their_project"
    (package / "defs").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (package / "__init__.py").touch()
    (package / "defs" / "__init__.py").touch()
    (package / "definitions.py").write_text(DEFINITIONS)
    (package / "defs" / "theirs.py").write_text(THEIRS)
    return tmp_path


@pytest.fixture
def call(their_project: Path) -> Callable[..., str]:
    """Runs a program in their project, whose environment has variables of an installation of ours; what it prints."""
    kept = clean_environment()
    paths = [str(their_project / "src"), str(ROOT)]
    variables = {"PYTHONPATH": os.pathsep.join(paths), "LUFFY__TRAINING__SEED": "99", "LUFFY_PROFILE": "nowhere"}

    def run(*command: str) -> str:
        done = subprocess.run(
            [str(Path(sys.executable).with_name(command[0])), *command[1:]],
            cwd=their_project,
            env={**kept, **variables, "DAGSTER_HOME": str(their_project)},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


def test_merged_with_theirs_the_targets_are_made_of_their_asset(their_project: Path, call):
    package, lines = their_project / "src" / "their_project", documented(their_project)
    (package / "definitions.py").write_text(lines["definitions"])
    (package / "reasoner.yaml").write_text(lines["profile"] + "  min_rows: 10\n")
    (line,) = [line for line in call("python", "-c", MATERIALIZE).splitlines() if line.startswith('{"success"')]
    found = json.loads(line)
    assert found["success"] and found["checks"] > 10 and found["rows"] == 30
    assert found["parents"] == ["raw/traces"] and found["source"] == "reasoner/targets/source"
    assert {"everything", "reasoner_everything"} <= set(found["jobs"])
    assert {"models", "reasoner_models", "targets", "reasoner_targets"} <= set(found["groups"])
    assert (their_project / "theirs" / "models" / "base").exists()
    reference = read_reference(their_project / "reasoner", "targets/train")
    assert reference["rows"] == 30 and Path(reference["path"]).is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_their_own_command_trains_a_policy_and_scores_it(their_project: Path, call):
    package, lines = their_project / "src" / "their_project", documented(their_project)
    (package / "definitions.py").write_text(lines["definitions"])
    (package / "reasoner.yaml").write_text(lines["profile"] + SMALL)
    call("dg", "launch", "--assets", '+key:"reasoner/report/scorecard"')
    reference = read_reference(their_project / "reasoner", "report/scorecard")
    lineage = json.loads((Path(reference["contenders"]["policy"]["path"]) / "lineage.json").read_text())
    assert lineage["targets"]["rows"] == 30 and lineage["steps"] == 2
    assert set(reference["contenders"]["policy"]["scores"]) == set(reference["contenders"]["base"]["scores"]) != set()


def test_a_component_of_dg_gives_the_same_definitions(their_project: Path, call):
    lines, folder = documented(their_project), their_project / "src" / "their_project" / "defs" / "reasoner"
    folder.mkdir()
    (folder / "defs.yaml").write_text(lines["component"])
    (folder / "reasoner.yaml").write_text(lines["profile"])
    listed = call("dg", "list", "defs", "--json")
    for name in ("raw/traces", "models/base", "reasoner/models/base", "reasoner/registry/champion"):
        assert f'"{name}"' in listed
    for name in ("everything", "reasoner_everything", "reasoner_watch_sources", "reasoner_weekly_retrain"):
        assert f'"{name}"' in listed


@pytest.mark.slow
def test_a_second_code_location_loads_beside_theirs(their_project: Path, call):
    lines = documented(their_project)
    call_of = re.search(r"luffy_definitions\(.*?\n        \)", lines["definitions"], flags=re.DOTALL)
    assert call_of
    (their_project / "reasoner.py").write_text(
        "from pathlib import Path\nfrom pipelines.embedding import luffy_definitions\ndefs = " + call_of[0]
    )
    (their_project / "reasoner.yaml").write_text(lines["profile"])
    theirs = "  - python_module: {module_name: their_project.definitions, working_directory: src}\n"
    (their_project / "workspace.yaml").write_text(lines["workspace"] + theirs)
    said = call("dagster", "definitions", "validate", "-w", "workspace.yaml")
    assert "Validation successful for code location reasoner" in said
    assert "All code locations passed validation" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key_prefix": []}, "key_prefix: expected at least one part"),
        *(
            ({"settings": {"targets": {"source": [f"asset:{key}"]}}}, f"targets.source: {said}")
            for key, said in (
                ("targets/source", "asset:targets/source: this is the key of an asset of this project"),
                ("a//b", "'asset:a//b': expected the key of an asset, as in asset:raw/traces"),
            )
        ),
        ({"settings": {"training": {"sead": 1}}}, "sead"),
        ({"ray": dg.FilesystemIOManager()}, "ray: got FilesystemIOManager, which has no lifecycle; expected"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict, said: str):
    with pytest.raises(InputError, match=re.escape(said)):
        luffy_definitions(**arguments)


def upstream(build, **materialized: object):
    """A project whose targets come from an asset that was materialized so."""
    project = build(targets__source="[asset:raw/traces]")
    if materialized:
        event = dg.AssetMaterialization(dg.AssetKey(["raw", "traces"]), **materialized)
        project.instance.report_runless_asset_event(event)
    return project.run_job("observe_sources")


@pytest.mark.parametrize(
    ("materialized", "said"),
    [
        ({}, "asset:raw/traces: this asset was never materialized"),
        ({"metadata": {"rows": 3}}, "does not name its file; add the metadata 'dagster/uri' or 'path'"),
        ({"metadata": {"path": "/nowhere.jsonl"}}, "/nowhere.jsonl"),
        ({"metadata": {"path": "x"}, "partition": "2026-01-01"}, "expected an asset without partitions"),
    ],
)
def test_an_asset_that_names_no_rows_is_one_message(build, materialized: dict, said: str):
    assert said in message(upstream(build, **materialized))
