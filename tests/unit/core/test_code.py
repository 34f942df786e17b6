"""What code an identity covers: what decides the numbers, all of it and nothing else."""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import PROJECT, code_digest
from core.errors import InputError
from core.model.lineage_file import InputRecord
from training.job.request import TrainingRequest

# Project modules that covered code imports and that cannot change what it computes.
WITHOUT_NUMBERS = {
    "core": "says where the project is",
    "core.code_digest": "computes the digests",
    "core.backends": "says where a process runs",
    "core.model.endpoints": "reads the key and checks the addresses of endpoints",
    "core.errors": "an exception class",
    "core.existing_python": "finds an interpreter and checks its packages",
    "core.parquet": "refuses files that are not what their schema says, or that do not fit into memory",
    "core.text.parse": "refuses what is not JSON or YAML",
    "core.files": "writes files and digests bytes",
    "core.machine.request_paths": "refuses outputs that cannot be written and folders that are not there",
    "core.model.hub": "downloads and uploads files, whose digests are part of the identity",
    "core.machine.loopback": "says where ports listen",
    "core.model.lineage_file": "describes what was computed",
    "core.model.model_folder": "checks and copies the files of a model, whose digest is part of the identity",
    "core.machine.limits": "lowers the limits of a process",
    "core.machine.temporary_folder": "gives a folder of sockets a short name",
    "core.machine.processes": "finds and ends processes",
    "core.metric_table": "names and describes metrics",
    "core.plugins.config_files": "finds configuration files, whose content is part of the identity",
    "core.plugins.user_code": "finds and digests the code of users, which is part of the identity",
    "core.progress": "reports progress",
    "grading.spec_values": "reads the specs of verifiers, whose digests are part of the identity",
    "grading.verifiers.spec": "parses the specs of verifiers, whose digests are part of the identity",
    "training.job.checkpoints": "keeps and copies the files that verl writes",
    "training.resources.requirements": "compares what a run needs with what there is",
    "training.config.ranges": "refuses numbers out of their range",
    "training.config.value_checks": "refuses values that contradict each other",
    "training.config.teacher_checks": "finds the teacher, whose digest is part of the identity, or refuses it",
    "training.job.alerts": "warns",
    "training.job.records.metrics_log": "reads and checks metrics",
}

SCHEMAS = "core.schemas"  # names the columns of files with verdicts, which a training does not write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the code that trains a policy, in which a test may change files."""
    for package in ("training", "grading", "core"):
        ignored = shutil.ignore_patterns("*.safetensors", "__pycache__")
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=ignored)
    return tmp_path


def identity(project: Path, recipe: str, *overrides: str, hardware: str = "cpu") -> str:
    read = InputRecord(path=Path("file"), digest="d")
    request = TrainingRequest(
        recipe=recipe, hardware=hardware, overrides=overrides, targets=read, model=read, out=Path("run")
    )
    return request.identity(project)


def change(project: Path, file: str) -> None:
    with (project / file).open("a") as handle:
        handle.write("\n# a comment\n")


@pytest.mark.parametrize(
    "file",
    [
        "training/export/model_card.py",
        "training/export/upload.py",
        "training/run.py",
        "core/backends/monitor.py",
        "core/model/base_model.py",
        "training/config/recipe/sft.yaml",
        "training/config/recipe/luffy_reinforce_pro.yaml",
        "training/config/hardware/gpu.yaml",
        "core/progress.py",
    ],
)
def test_what_a_run_does_not_use_is_no_part_of_its_identity(project: Path, file: str) -> None:
    before = identity(project, "luffy")
    change(project, file)
    assert identity(project, "luffy") == before


@pytest.mark.parametrize(
    ("recipe", "file"),
    [
        ("luffy", "training/algorithms/mixed_loss.py"),
        ("luffy", "training/verl_hooks/agent_loops.yaml"),
        ("luffy", "training/job/configuration.py"),
        ("luffy", "training/config/train.yaml"),
        ("luffy", "training/config/hardware/cpu.yaml"),
        ("luffy", "training/config/recipe/luffy.yaml"),
        ("luffy", "grading/grader.py"),
        pytest.param("luffy_reinforce_pro", "training/config/recipe/luffy.yaml", id="parent of the recipe"),
        pytest.param("sft_rl", "training/config/recipe/sft.yaml", id="recipe of the first stage"),
    ],
)
def test_what_decides_the_numbers_of_a_run_is_part_of_its_identity(project: Path, recipe: str, file: str) -> None:
    before = identity(project, recipe)
    change(project, file)
    assert identity(project, recipe) != before


def test_the_parent_of_a_hardware_profile_is_part_of_the_identity(project: Path) -> None:
    before = identity(project, "luffy", hardware="gpu_multinode")
    change(project, "training/config/hardware/gpu.yaml")
    assert identity(project, "luffy", hardware="gpu_multinode") != before


def test_an_override_that_chooses_a_recipe_covers_all_of_them(project: Path) -> None:
    before = identity(project, "luffy", "recipe=on_policy")
    change(project, "training/config/recipe/on_policy.yaml")
    assert identity(project, "luffy", "recipe=on_policy") != before


def test_a_recipe_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="no recipe 'lufy'; did you mean luffy\\? expected one of chord_mu, "):
        identity(PROJECT, "lufy")


@pytest.mark.parametrize("covered", ["GRADING_CODE", "PREPARATION_CODE", "GENERATION_CODE", "POLICY_CODE"])
def test_covered_code_imports_only_covered_code(covered: str) -> None:
    paths = [PROJECT / path for path in getattr(code_digest, covered)]
    excepted = {*WITHOUT_NUMBERS, SCHEMAS} if covered == "POLICY_CODE" else {*WITHOUT_NUMBERS}
    modules = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))]
    uncovered = {
        f"{file.relative_to(PROJECT)} imports {name}"
        for file in modules
        if file.suffix == ".py"
        for name in project_imports(file)
        if name not in excepted and not any(module_file(name).is_relative_to(path) for path in paths)
    }
    assert not uncovered


def test_every_exception_is_needed() -> None:
    names = ("PREPARATION_CODE", "GENERATION_CODE", "POLICY_CODE")
    covered = {path for name in names for path in getattr(code_digest, name)}
    files = [
        file
        for path in covered
        for file in ([PROJECT / path] if path.endswith(".py") else (PROJECT / path).rglob("*.py"))
    ]
    assert {name for file in files for name in project_imports(file)} >= set(WITHOUT_NUMBERS)


def project_imports(file: Path) -> Iterator[str]:
    """The modules of the project that ``file`` imports, at its head or inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module)):
                names = [f"{module}.{alias.name}" for alias in node.names]
                names = [name if module_file(name).exists() else module for name in names]
            case _:
                continue
        yield from (
            name for name in names if (PROJECT / name.partition(".")[0]).is_dir() and module_file(name).exists()
        )


def module_file(name: str) -> Path:
    path = PROJECT / name.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
