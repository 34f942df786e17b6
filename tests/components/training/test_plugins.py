"""Functions and recipes of the user's: found by path and by name, part of the identity, refused in one message."""

from pathlib import Path

import pytest

from core.errors import InputError
from core.model.manifest import InputRecord
from core.plugins.user_code import UserFunctionError
from training.algorithms.registry import CORRECTIONS, KEYS, LOSSES
from training.job.configuration import compose_run, mixed_options
from training.job.input_checks import check_functions
from training.job.request import TrainingRequest, has_first_stage

LOSS = """
from weights import POWER

def mine(old_log_prob, log_prob, advantages, response_mask, off_policy_mask, options):
    return -advantages * log_prob * POWER, {}

def short(log_prob):
    return log_prob

def gate(successes, n, options):
    return (options.kwargs["weight"], 1.0)
"""
RECIPE = "defaults:\n  - luffy\nmixed:\n  loss: loss.py:mine\n"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A folder with a recipe, its loss, and the module that the loss imports."""
    (tmp_path / "plugin").mkdir()
    for name, text in (("loss.py", LOSS), ("weights.py", "POWER = 2\n"), ("mine.yaml", RECIPE)):
        (tmp_path / "plugin" / name).write_text(text)
    return tmp_path / "plugin"


def identity(recipe: str | Path, *overrides: str) -> str:
    read = InputRecord(path=Path(__file__), digest="d")
    request = TrainingRequest(recipe=str(recipe), overrides=overrides, targets=read, model=read, out=Path("run"))
    return request.model_copy(update={"files": files(request)}).identity()


def files(request: TrainingRequest) -> dict[str, str]:
    from training.job.request import file_digests

    return file_digests(request.recipe, request.hardware, request.overrides)


def test_a_recipe_names_its_functions_relative_to_itself(plugin: Path, tmp_path: Path) -> None:
    (plugin / "child.yaml").write_text("defaults:\n  - mine\nmixed:\n  gate: {type: none}\n")
    for recipe in ("mine", "child"):
        config = compose_run(str(plugin / f"{recipe}.yaml"), "cpu", [], run=tmp_path)
        assert config.mixed.loss == f"{plugin}/loss.py:mine"
        assert config.mixed.off_policy_reshape == "p_div_p"  # of its parent
        check_functions(config)


def test_an_override_names_a_function_relative_to_the_users_folder(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plugin)
    overrides = ["mixed.gate.type=loss.py:gate", "mixed.gate.kwargs.weight=0.25"]
    config = compose_run("hpt", "cpu", overrides, run=tmp_path)
    options = mixed_options(config)
    assert options.gate.type == f"{plugin}/loss.py:gate"
    assert KEYS["mixed.gate.type"].function(options.gate.type)(1, 2, options.gate) == (0.25, 1.0)


def test_the_content_of_a_plugin_is_part_of_the_identity_and_its_folder_is_not(plugin: Path, tmp_path: Path) -> None:
    before = identity(plugin / "mine.yaml")
    moved = plugin.rename(tmp_path / "elsewhere")
    assert identity(moved / "mine.yaml") == before
    (moved / "unrelated.py").write_text("X = 1\n")
    assert identity(moved / "mine.yaml") == before
    for file, text in (("weights.py", "POWER = 3\n"), ("loss.py", LOSS + "\n"), ("mine.yaml", RECIPE + "\n")):
        old = (moved / file).read_text()
        (moved / file).write_text(text)
        assert identity(moved / "mine.yaml") != before, file
        (moved / file).write_text(old)
    assert identity("luffy", f"mixed.loss={moved}/loss.py:mine") != identity("luffy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loss.py:nothing", r"mixed\.loss: .*loss\.py:nothing: there is no such function in it"),
        ("loss.py:short", r"mixed\.loss: .*loss\.py:short: expected a function of \(old_log_prob, .*; too many"),
        ("gone.py:mine", r"recipe .*mine\.yaml: mixed\.loss: gone\.py:mine: no file .*gone\.py"),
        ("nowhere.losses:mine", r"mixed\.loss: nowhere\.losses:mine: its import raised ModuleNotFoundError"),
        ("mined", r"loss: got 'mined', expected one of mixed_policy, or FILE\.py:FUNCTION"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_by_name(plugin: Path, text: str, message: str) -> None:
    (plugin / "mine.yaml").write_text(RECIPE.replace("loss.py:mine", text))
    with pytest.raises(InputError, match=message):
        check_functions(compose_run(str(plugin / "mine.yaml"), "cpu", [], run=plugin))


def test_a_recipe_with_the_name_of_a_shipped_one_is_refused(plugin: Path) -> None:
    file = (plugin / "mine.yaml").rename(plugin / "luffy.yaml")
    with pytest.raises(InputError, match=r"luffy\.yaml: luffy is the name of a shipped one; rename the file"):
        compose_run(str(file), "cpu", [], run=plugin)


def test_options_that_nothing_reads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"kwargs=.* contradicts .*only a function of yours reads them"):
        mixed_options(compose_run("luffy", "cpu", ["mixed.kwargs.power=1"], run=tmp_path))


def test_an_error_of_a_function_names_it(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def f(mismatch, options):\n    raise KeyError('x')\n")
    with pytest.raises(UserFunctionError, match=r"bad\.py:f raised KeyError: 'x'"):
        CORRECTIONS.function(f"{tmp_path}/bad.py:f")(None, None)
    with pytest.raises(ValueError, match=r"expected file\.py:function"):
        LOSSES.find(":f")


def test_the_nearest_recipe_says_whether_there_is_a_first_stage(plugin: Path) -> None:
    (plugin / "child.yaml").write_text("defaults:\n  - sft_rl\n")
    (plugin / "alone.yaml").write_text("defaults:\n  - child\nfirst_stage: null\n")
    assert [has_first_stage(str(plugin / f"{name}.yaml")) for name in ("child", "alone")] == [True, False]
