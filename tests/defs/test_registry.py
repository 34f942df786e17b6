"""The champion moved by hand: `luffy champion`, `promote` and `rollback`, its files and its trace in the instance."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest
from processes import clean_environment

from core.errors import InputError
from evaluation.promotion.champions import Registry
from tests.defs.project import build_project
from tests.defs.written_scores import GOOD, OUTPUTS, Written, with_base

ROOT = Path(__file__).resolve().parents[2]
CHAMPION = dg.AssetKey(["registry", "champion"])


@pytest.fixture
def written(build) -> Written:
    return with_base(build())


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Written, str, str]]:
    """An installation in which a second policy has beaten the first."""
    with dg.DagsterInstance.ephemeral() as instance:
        made = with_base(build_project(tmp_path_factory.mktemp("decided") / "storage", instance))
        first = made.policy("first", **GOOD)
        assert made.project.run(*OUTPUTS).success
        second = made.policy("second", **{**GOOD, "arithmetic": 0.75})
        assert made.project.run(*OUTPUTS).success
        assert made.champion["checkpoint"] == second
        yield made, first, second


@pytest.fixture
def two(build, decided: tuple[Written, str, str]) -> tuple[Written, str, str]:
    """A copy of it."""
    made, first, second = decided
    return made.copied(build()), first, second


def environment_of(written: Written) -> dict[str, str]:
    storage = written.project.storage
    return clean_environment() | {"DAGSTER_HOME": str(storage.parent / "home"), "LUFFY__STORAGE__ROOT": str(storage)}


def command(written: Written, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """``luffy`` in a process of its own."""
    program = [sys.executable, "-m", "pipelines.cli.luffy", *arguments]
    return subprocess.run(
        program, cwd=ROOT, env=environment_of(written), capture_output=True, text=True, check=False, timeout=120
    )


def test_the_commands_move_the_champion_and_leave_a_trace(two, luffy):
    written, first, second = two
    environment = environment_of(written)
    files = written.project.storage / "registry" / "decisions"
    before = len(list(files.iterdir()))
    done = luffy(environment, "champion", "rollback", "--reason", "it *insults* <b>users</b>")
    assert done.returncode == 0, done.stderr
    assert written.champion["checkpoint"] == first
    assert len(list(files.iterdir())) == before + 1
    done = luffy(environment, "champion", "promote", second[:8], "--reason", "mended")
    assert done.returncode == 0, done.stderr
    assert written.champion["checkpoint"] == second
    with dg.DagsterInstance.from_config(str(written.project.storage.parent / "home")) as instance:
        events = instance.fetch_materializations(CHAMPION, limit=5).records
        shown = [record.asset_materialization for record in events]
        assert [event.metadata["by hand"].value for event in shown] == ["promote", "rollback"]
        assert [event.tags["dagster/data_version"] for event in shown] == [second, first]
        assert "<b>" not in shown[1].metadata["reasons"].value and "insults" in shown[1].metadata["reasons"].value
    listed = luffy(environment, "champion").stdout
    assert f"champion: {second[:16]}" in listed and "rollback" in listed and "mended" in listed


def test_retention_lists_and_then_removes_by_command(written, luffy):
    environment = environment_of(written)
    old = written.project.storage / "generations/arithmetic/aaaa"
    old.mkdir(parents=True)
    (old / "data.bin").write_bytes(b"x" * 1000)
    for path in (old / "data.bin", old):
        os.utime(path, (0, 0))
    for arguments, last in (
        ([], "1 folders can be removed: 1,000 bytes"),
        (["--remove"], "1 folders removed: 1,000 bytes"),
    ):
        assert old.exists()
        done = luffy(environment, "champion", "retention", *arguments)
        assert done.returncode == 0, done.stderr
        assert "| generations/arithmetic/aaaa |" in done.stdout and done.stdout.splitlines()[-1] == last
    assert not old.exists()


@pytest.mark.slow
def test_moves_at_once_are_shown_in_the_order_in_which_they_were_made(two):
    """From several terminals, beside a retention that somebody launched in the UI."""
    written, first, second = two
    files = written.project.storage / "registry" / "decisions"
    before = {file.name for file in files.iterdir()}
    moves = [("promote", first), ("promote", second), ("rollback",), ("promote", first), ("promote", second)]
    with ThreadPoolExecutor() as terminals:
        done = [terminals.submit(command, written, "champion", *move, "--reason", "at once") for move in moves]
        assert written.project.run_job("retention", dry_run=False).success
    statuses = [each.result().returncode for each in done]
    assert set(statuses) <= {0, 2}  # 2: it is the champion already, or there is nothing to return to
    kept = [json.loads(file.read_text())["checkpoint"] for file in sorted(files.iterdir()) if file.name not in before]
    assert len(kept) == statuses.count(0) > 1
    with dg.DagsterInstance.from_config(str(written.project.storage.parent / "home")) as instance:
        shown = instance.fetch_materializations(CHAMPION, limit=len(moves), ascending=True).records
    tags = [(record.asset_materialization.tags or {}) for record in shown if record.asset_materialization]
    assert [entry["dagster/data_version"] for entry in tags] == kept
    assert written.champion["checkpoint"] == written.reference("registry/champion")["digest"] == kept[-1]


def test_what_was_rolled_back_is_not_promoted_again_by_itself(two):
    written, first, second = two
    registry = Registry(written.project.storage)
    registry.rollback(reason="bad")
    assert written.project.run(*OUTPUTS).success
    assert written.champion["checkpoint"] == first
    assert "rolled back by hand" in written.project.metadata("registry/champion")["reasons"]
    registry.promote(second, reason="good after all")
    assert written.champion["rejected"] == []
    third = written.policy("third", **{**GOOD, "arithmetic": 0.99, "arithmetic_mul": 0.3})
    assert written.project.run(*OUTPUTS).success
    assert written.champion["checkpoint"] == third


@pytest.mark.parametrize(
    ("lost", "said"), [("", "no such folder"), ("lineage.json", "no lineage.json"), ("model.safetensors", "")]
)
def test_a_rollback_to_a_policy_that_is_gone_changes_nothing(two, lost: str, said: str):
    written, first, second = two
    policy = written.project.storage / "training/policy/first/policy"
    (policy / lost).rename(policy.with_name("moved"))
    before = written.project.files()
    with pytest.raises(InputError, match=rf"^{policy}: expected the policy {first[:16]}, .*{said}.*; restore it, or"):
        Registry(written.project.storage).rollback(reason="")
    assert written.project.files() == before and written.champion["checkpoint"] == second


def test_a_promotion_by_hand_keeps_the_scores_for_the_next_comparison(written: Written):
    written.policy("first", **GOOD)
    assert written.project.run(*OUTPUTS).success
    weak = written.policy("weak", **{**GOOD, "arithmetic": 0.4})
    assert written.project.run(*OUTPUTS).success
    Registry(written.project.storage).promote(str(written.project.storage / "training/policy/weak"), reason="smaller")
    third = written.policy("third", **{**GOOD, "arithmetic": 0.9})
    assert written.project.run(*OUTPUTS).success
    assert (written.champion["checkpoint"], written.champion["previous"]) == (third, weak)


def test_moves_that_cannot_be_say_why_and_change_nothing(two, tmp_path, luffy):
    written, first, second = two
    registry = Registry(written.project.storage)
    registry.rollback(reason="bad")
    record = written.champion
    outside = tmp_path / "outside"
    outside.mkdir()
    for wanted, said in (
        ("zzzz", "neither a run"),
        (first, "already the champion"),
        (str(outside), "outside of storage"),
    ):
        with pytest.raises(InputError, match=said):
            registry.promote(wanted, reason="")
    with pytest.raises(InputError, match="first champion"):
        registry.rollback(reason="")
    assert written.champion == record
    (Path(written.project.storage) / "training/policy/second/policy/model.safetensors").write_text("other")
    done = luffy(environment_of(written), "champion", "promote", second)
    assert done.returncode == 2 and done.stderr.startswith("error: checkpoint ") and "Traceback" not in done.stderr
    assert json.loads((written.project.storage / "registry/champion.json").read_text()) == record
