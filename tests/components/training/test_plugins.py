"""Functions and recipes of the user's: found by path and by name, part of the identity, refused in one message."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import InputError
from core.model.lineage_file import InputRecord
from core.plugins.config_files import trains_on_heldout
from core.plugins.user_code import load_function
from core.settings import Section
from training.config.method_keys import of_run
from training.config.run_checks import check_run
from training.config.to_verl import compose_run
from training.job.request import TrainingRequest
from training.settings import TrainingSettings

METHOD = """
from weights import POWER
from training.methods.luffy import Luffy

class Mine(Luffy):
    power: float = POWER

def short(log_prob):
    return log_prob
"""
RECIPE = "defaults:\n  - luffy\nmethod: {type: method.py:Mine}\n"


@pytest.fixture(autouse=True)
def unloaded(tmp_path: Path) -> Iterator[None]:
    """Each test is a process of its own as far as the user's modules are concerned."""
    folders = [*sys.path]
    yield
    sys.path[:] = folders
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A folder with a recipe, its method, and the module that the method imports."""
    (tmp_path / "plugin").mkdir()
    for name, text in (("method.py", METHOD), ("weights.py", "POWER = 2\n"), ("mine.yaml", RECIPE)):
        (tmp_path / "plugin" / name).write_text(text)
    return tmp_path / "plugin"


class Sections(Section):
    training: TrainingSettings


def identity(recipe: str | Path, *overrides: str) -> str:
    read = InputRecord(path=Path(__file__), digest="d")
    request = TrainingRequest(recipe=str(recipe), overrides=overrides, targets=read, model=read, out=Path("run"))
    return request.model_copy(update={"files": files(request)}).identity()


def files(request: TrainingRequest) -> dict[str, str]:
    from training.job.request import file_digests

    return file_digests(request.composed())


def test_a_recipe_names_its_functions_relative_to_itself(plugin: Path, tmp_path: Path) -> None:
    (plugin / "child.yaml").write_text("defaults:\n  - mine\nmethod: {advantage: {use_std: true}}\n")
    for recipe in ("mine", "child"):
        config = compose_run(str(plugin / f"{recipe}.yaml"), "cpu", [], run=tmp_path)
        assert config.method.type == f"{plugin}/method.py:Mine"
        assert config.method.off_policy.reshape.type == "p_div_p"  # of its class
        of_run(config)


def test_an_override_names_a_method_relative_to_the_users_folder_and_sets_its_fields(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plugin)
    config = compose_run("hpt", "cpu", ["method.type=method.py:Mine", "method.power=0.25"], run=tmp_path)
    assert config.method.type == f"{plugin}/method.py:Mine"
    assert of_run(config).power == 0.25
    with pytest.raises(InputError, match=r"method\.powr is not a setting; did you mean power"):
        compose_run(str(plugin / "mine.yaml"), "cpu", ["method.powr=0.25"], run=tmp_path)


def test_the_content_of_a_plugin_is_part_of_the_identity_and_its_folder_is_not(plugin: Path, tmp_path: Path) -> None:
    before = identity(plugin / "mine.yaml")
    moved = plugin.rename(tmp_path / "elsewhere")
    assert identity(moved / "mine.yaml") == before
    (moved / "unrelated.py").write_text("X = 1\n")
    assert identity(moved / "mine.yaml") == before
    for file, text in (
        ("weights.py", "POWER = 3\n"),
        ("method.py", METHOD + "\n"),
        ("mine.yaml", f"{RECIPE}data: {{shuffle: false}}\n"),
    ):
        old = (moved / file).read_text()
        (moved / file).write_text(text)
        assert identity(moved / "mine.yaml") != before, file
        (moved / file).write_text(old)
    assert identity("luffy", f"method.type={moved}/method.py:Mine") != identity("luffy")


def test_a_recipe_names_its_reward_function_relative_to_itself(plugin: Path, tmp_path: Path) -> None:
    recipe, reward = plugin / "rewarded.yaml", plugin / "reward.py"
    recipe.write_text("defaults:\n  - luffy\nreward:\n  custom_reward_function: {path: reward.py, name: score}\n")
    reward.write_text("SCORE = 1.0\n")
    config = compose_run(str(recipe), "cpu", [], run=tmp_path)
    assert config.reward.custom_reward_function.path == str(reward)
    before = identity(recipe)
    reward.write_text("SCORE = 0.5\n")
    assert identity(recipe) != before
    reward.unlink()
    with pytest.raises(
        InputError, match=r"recipe .*rewarded\.yaml: reward\.custom_reward_function\.path: .*: no such file"
    ):
        identity(recipe)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method.py:nothing", r"method\.type: .*method\.py:nothing: .*no attribute 'nothing'"),
        ("method.py:short", r"method\.type: .*method\.py:short: expected a subclass of training\.methods"),
        ("gone.py:Mine", r"method\.type: .*/gone\.py:Mine: no file .*/gone\.py"),
        (
            "nowhere.methods:Mine",
            r"method\.type: nowhere\.methods:Mine: no module nowhere\.methods: install its package",
        ),
        ("exits.py:Mine", r"method\.type: .*exits\.py:Mine: its import raised SystemExit: 3"),
        ("clash.py:Mine", r"clash\.py imports .*grading\.py, but Python has .*grading/__init__\.py .*: rename yours"),
        ("library.py:Mine", r"library\.py imports .*statistics\.py, but Python has .*/lib/.* under that name"),
        ("mined", r"method\.type: got 'mined', expected one of on_policy, .*, or FILE\.py:NAME"),
    ],
)
def test_a_method_that_cannot_be_made_is_refused_by_name(plugin: Path, text: str, message: str) -> None:
    (plugin / "exits.py").write_text("import sys\nsys.exit(3)\n")
    for name, beside in (("clash", "grading"), ("library", "statistics")):
        (plugin / f"{name}.py").write_text(f"import {beside}\n")
        (plugin / f"{beside}.py").write_text("ONE = 1\n")
    (plugin / "mine.yaml").write_text(RECIPE.replace("method.py:Mine", text))
    with pytest.raises(InputError, match=message):
        compose_run(str(plugin / "mine.yaml"), "cpu", [], run=plugin)


def test_two_files_of_one_name_run_and_two_helpers_of_one_name_are_refused(plugin: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for folder, number in ((plugin, 2), (tmp_path / "other", 3)):
        (folder / "notes.py").write_text(f"def note(step, metrics):\n    return {number}\n")
        (folder / "helper.py").write_text(f"POWER = {number}\n")
        (folder / "helped.py").write_text(METHOD.replace("from weights", "from helper"))
    notes = [load_function(f"{folder}/notes.py:note") for folder in (plugin, tmp_path / "other")]
    assert [note(0, {}) for note in notes] == [2, 3]
    load_function(f"{plugin}/helped.py:Mine")
    with pytest.raises(InputError, match=r"other/helped\.py imports .*/other/helper\.py, but Python has .*plugin/h"):
        load_function(f"{tmp_path}/other/helped.py:Mine")


def test_a_file_of_a_recipe_that_an_override_replaces_may_be_gone(plugin: Path, tmp_path: Path) -> None:
    (plugin / "method.py").unlink()
    recipe = str(plugin / "mine.yaml")
    with pytest.raises(InputError, match=rf"method\.type: {plugin}/method\.py:Mine: no file {plugin}/method\.py"):
        compose_run(recipe, "cpu", [], run=tmp_path)
    assert compose_run(recipe, "cpu", ["method.type=luffy"], run=tmp_path).method.type == "luffy"
    assert identity(recipe, "method.type=luffy")


def test_a_recipe_with_the_name_of_a_shipped_one_is_refused(plugin: Path) -> None:
    file = (plugin / "mine.yaml").rename(plugin / "luffy.yaml")
    with pytest.raises(InputError, match=r"luffy\.yaml: luffy is the name of a shipped one; rename the file"):
        compose_run(str(file), "cpu", [], run=plugin)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("defaults: luffy", r"recipe .*mine\.yaml: defaults: got 'luffy', expected a list of names"),
        ("defaults: [{a: b}]", r"mine\.yaml: defaults: got .*, expected a list of names"),
        ("defaults: [nothing]", r"recipe .*mine\.yaml: defaults: no recipe 'nothing': expected one of"),
        ("defaults: [child]", r"mine\.yaml: it is a parent of itself \(mine -> child -> mine\); remove it"),
        (
            "defaults: [luffy]\nmethd: {type: hpt}",
            r"recipe .*mine\.yaml: unknown key 'methd\.type'",
        ),
        ("defaults: [luffy]\nmethod: null", r"mine\.yaml: method: got None, expected a mapping of its keys"),
        (
            'defaults: [luffy]\ndata: {train_batch_size: "8"}',
            r"mine\.yaml: data\.train_batch_size: got '8', expected a whole number",
        ),
    ],
)
def test_a_recipe_with_a_wrong_parent_or_key_is_one_message(plugin: Path, text: str, message: str) -> None:
    (plugin / "child.yaml").write_text("defaults:\n  - mine\n")
    (plugin / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        compose_run(str(plugin / "mine.yaml"), "cpu", [], run=plugin)


def test_a_recipe_names_its_trackers_relative_to_itself(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    (plugin / "watch.py").write_text("def note(step, metrics): pass\n")
    for recipe, file in (("mine", "watch.py"), ("other", "gone.py")):
        (plugin / f"{recipe}.yaml").write_text(f"defaults:\n  - luffy\nrun: {{trackers: [tensorboard, {file}:note]}}\n")
    config = compose_run(str(plugin / "mine.yaml"), "cpu", [], run=tmp_path)
    assert config.run.trackers == ["tensorboard", f"{plugin}/watch.py:note"]
    with pytest.raises(InputError, match=rf"run\.trackers: no file {plugin}/gone\.py"):
        check_run(compose_run(str(plugin / "other.yaml"), "cpu", [], run=tmp_path))


def test_a_recipe_without_rollouts_has_none_of_their_keys(plugin: Path) -> None:
    (plugin / "mine.yaml").write_text("defaults: [sft]\nreward: {truncated: zero}\n")
    (plugin / "child.yaml").write_text("defaults:\n  - mine\n")
    message = rf"recipe {plugin}/mine\.yaml: reward\.truncated has no effect with method.type=sft"
    for name in ("mine", "child"):
        with pytest.raises(InputError, match=message):
            compose_run(str(plugin / f"{name}.yaml"), "cpu", [], run=plugin)


def test_the_nearest_recipe_says_whether_a_second_stage_needs_held_out_targets(plugin: Path) -> None:
    (plugin / "child.yaml").write_text("defaults:\n  - sft_rl\n")
    (plugin / "alone.yaml").write_text("defaults:\n  - child\nfirst_stage: null\n")
    recipes = [*(str(plugin / f"{name}.yaml") for name in ("child", "alone")), "sft_then_rl"]
    assert [trains_on_heldout(recipe) for recipe in recipes] == [True, False, False]
    (plugin / "text.yaml").write_text("defaults:\n  - on_policy\nfirst_stage: sft\n")
    with pytest.raises(InputError, match=r"text\.yaml: first_stage: got 'sft', expected {recipe: NAME, set: \[\]}"):
        trains_on_heldout(str(plugin / "text.yaml"))
