"""What the code location defines: keys, gates, defaults, and that it loads fast and light."""

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from assets.checks import ACCOUNT
from assets.shared.references import Reference
from assets.shared.storage import Storage
from pipelines.definitions.factory import build_defs
from pipelines.settings import load
from targets.check.expectations import SUITE, check_names, load_checks
from tests.defs.project import settings_of

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ["torch", "vllm", "verl", "ray", "transformers", "datasets", "great_expectations", "math_verify"]
HEAVY += ["matplotlib", "scipy", "rich"]  # of reports: imported where they are written


def definitions(profile: str, **settings: str) -> dg.Definitions:
    return build_defs(settings_of(LUFFY_PROFILE=profile, **settings))


def graph(profile: str, **settings: str):
    return definitions(profile, **settings).resolve_asset_graph()


def test_a_step_waits_for_all_that_its_asset_depends_on() -> None:
    """Dagster draws an edge that the step of an asset does not wait for."""
    sets = ["targets.source=[generated]", "generate.teacher=x", "generate.problems=y.jsonl"]
    defs = build_defs(load("embedded", sets))
    graph = defs.resolve_asset_graph()
    for asset in graph.assets_defs:
        deps = {dep.asset_key for key in asset.keys for dep in asset.get_asset_spec(key).deps}
        made = {key for key in deps if graph.get(key).is_materializable}
        assert not asset.is_executable or made <= {*asset.node_keys_by_input_name.values()}, asset.op.name


def test_the_arrows_are_those_of_the_architecture():
    found = graph("embedded")

    def parents(key: str) -> set[str]:
        return {parent.to_user_string() for parent in found.get(dg.AssetKey.from_user_string(key)).parent_keys}

    assert "targets/source" in parents("targets/prepared")
    assert parents("targets/train") == {"targets/prepared"}
    assert parents("training/policy") == {"targets/train", "models/base"}
    assert parents("training/metrics") == {"training/policy"}
    assert parents("training/ledger") == {"training/policy", "targets/rejected"}
    assert parents("training/checkpoints") == {"training/policy"}
    assert parents("evals/base/arithmetic") == {"models/base", "benchmarks/suite"}
    assert parents("ood/policy/arithmetic_mul") == {"training/policy", "benchmarks/suite"}
    assert {key.split("/")[0] for key in parents("report/scorecard")} == {"evals", "ood"}
    assert parents("registry/champion") == {"report/scorecard"}


@pytest.mark.parametrize("profile", ["embedded", "paper"])
def test_every_asset_says_what_it_is(profile):
    found = graph(profile)
    for key in found.get_all_asset_keys():
        node = found.get(key)
        assert node.description and node.description.endswith("."), key
        assert node.group_name == key.path[0], key
        assert node.kinds, key
        if node.is_materializable:
            assert node.code_version, key
        assert node.owners, key


def test_every_check_of_the_suite_gates_the_training_file():
    checks = graph("embedded").asset_check_keys
    assert {check.name for check in checks} == {*check_names(), ACCOUNT}
    assert {check.asset_key for check in checks} == {dg.AssetKey(["targets", "train"])}
    specs = [spec for checks in definitions("embedded").asset_checks or [] for spec in checks.check_specs]
    assert {spec.name for spec in specs if not spec.blocking} == {
        check.name for check in load_checks(SUITE) if check.severity == "warning"
    }


def test_a_suite_can_be_narrowed():
    keys = {key.to_user_string() for key in graph("paper", LUFFY__SUITE__ONLY="[aime24, arc_c]").get_all_asset_keys()}
    assert {key for key in keys if key.startswith(("evals/policy", "ood/policy"))} == {
        "evals/policy/aime24",
        "ood/policy/arc_c",
    }


STATE = """
import gc, importlib, json, locale, logging, os, signal, sys, threading, warnings
def state():
    umask = os.umask(0)
    os.umask(umask)
    handlers = {s.name: str(signal.getsignal(s)) for s in signal.Signals if s not in (signal.SIGKILL, signal.SIGSTOP)}
    return {
        "umask": umask,
        "environment": dict(os.environ),
        "signal handlers": handlers,
        "root logger": [logging.root.level, [str(h) for h in logging.root.handlers], logging.root.manager.disable],
        "path": list(sys.path),
        "folder": os.getcwd(),
        "garbage collection": [gc.isenabled(), gc.get_freeze_count(), gc.get_threshold()],
        "threads": [thread.name for thread in threading.enumerate()],
        "hooks": [str(sys.excepthook), str(threading.excepthook), str(sys.unraisablehook)],
        "locale": locale.setlocale(locale.LC_ALL),
        "streams": [str(sys.stdin), str(sys.stdout), str(sys.stderr)],
        "open files": len(os.listdir("/proc/self/fd")),
    }
before = state()
for module in sys.argv[1:]:
    importlib.import_module(module)
after = state()
print(json.dumps({name: [before[name], after[name]] for name in before if before[name] != after[name]}))
print(json.dumps([*sys.modules]))
"""


def test_the_location_loads_nothing_heavy_and_changes_nothing_of_the_process():
    command = [sys.executable, "-c", STATE, "pipelines.definitions.code_location", "pipelines.embedding"]
    done = subprocess.run(command, cwd=ROOT, umask=0o022, capture_output=True, text=True, check=True)
    changes, modules = map(json.loads, done.stdout.splitlines())
    assert changes == {}
    assert not set(HEAVY) & {name.partition(".")[0] for name in modules}


def test_a_storage_is_private_whatever_the_umask_of_the_process(tmp_path: Path):
    umask = os.umask(0o022)
    try:
        Storage(root=str(tmp_path / "storage")).write_reference("a/b", Reference(path="x", digest="d"))
    finally:
        os.umask(umask)
    assert (tmp_path / "storage").stat().st_mode & 0o777 == 0o700
