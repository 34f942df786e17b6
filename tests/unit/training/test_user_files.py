"""Files that a user names: reward functions and others, their identity, their checks and their errors."""

import asyncio
import os
from pathlib import Path

import pytest

from core.errors import InputError
from core.plugins.user_code import source_files, user_code_digest
from training.config.compose import compose
from training.config.to_verl import compose_run
from training.job.request import TrainingRequest
from training.job.user_reward import RewardError, check_reward_function, compute_score, reward_section

KEY = "reward.custom_reward_function.path"
GOOD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, *, bonus=0.0):
    return 1.0 + bonus
"""


def request(overrides: tuple[str, ...], **changes: object) -> TrainingRequest:
    inputs = {"targets": {"path": "t", "digest": "d" * 64}, "model": {"path": "m", "digest": "d" * 64}, "out": "run"}
    files = {key: file.read_text() for key, file in compose("luffy", "cpu", overrides).files.items()}
    return TrainingRequest.model_validate({**inputs, "overrides": overrides, "files": files, **changes})


def test_what_only_the_first_stage_reads_is_part_of_the_identity(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text("from training.methods.luffy import Luffy\n\n\nclass Mine(Luffy):\n    pass\n")
    (tmp_path / "first.yaml").write_text("defaults: [sft]\nmethod: {type: mine.py:Mine}\n")
    override = "method.type=mine.py:Mine"
    (tmp_path / "both.yaml").write_text(f"defaults: [sft_rl]\nfirst_stage: {{recipe: sft, set: ['{override}']}}\n")
    monkeypatch.chdir(tmp_path)
    method = tmp_path / "mine.py"
    for recipe, text in (
        ("sft_rl", f"first_stage.set=['{override}']"),
        ("sft_rl", f"first_stage={{recipe: dft, set: ['{override}']}}"),
        ("sft_rl", "first_stage.recipe=first.yaml"),
        ("both.yaml", "seed=1"),
    ):
        assert method in compose(recipe, "cpu", (text,)).files.values(), text
    assert compose("sft_rl", "cpu", ("first_stage.recipe=first.yaml",)).files["recipe first"] == tmp_path / "first.yaml"
    assert not compose("sft_rl", "cpu", ("first_stage.set=['data.train_batch_size=4']",)).files
    # An override of the stage replaces that of the recipe.
    assert method not in compose("both.yaml", "cpu", ("first_stage.set=[]",)).files.values()


def test_a_changed_reward_function_is_another_training(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    for path in (str(file), "mine.py", f"'{file}'"):
        first = request((f"{KEY}={path}",)).identity()
        file.write_text(GOOD.replace("1.0", "0.5"))
        assert request((f"{KEY}={path}",)).identity() != first
        file.write_text(GOOD)
        assert request((f"{KEY}={path}",)).identity() == first
    with pytest.raises(InputError, match=rf"{KEY}: .*none\.py: no such file"):
        compose("luffy", "cpu", [f"{KEY}=none.py"])
    assert compose("luffy", "cpu", [f"{KEY}=pkg://training.verl_hooks.reward", "data.val_files=null"]).files == {}
    config = compose_run("luffy", "cpu", [f"{KEY}=mine.py"], run=Path("run"))
    assert config.reward.custom_reward_function.path == str(file)


def test_modules_beside_a_reward_function_belong_to_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from beside import one\n" + GOOD.replace("return 1.0", "return one()"))
    (tmp_path / "beside.py").write_text("import below.deep\n\n\ndef one(): return below.deep.ONE\n")
    (tmp_path / "below").mkdir()
    (tmp_path / "below/deep.py").write_text("from . import other\nONE = 1.0\n")
    (tmp_path / "below/other.py").write_text("")
    (tmp_path / "stranger.py").write_text("")
    check_reward_function({"path": str(file), "name": "compute_score"})

    def identity() -> str:
        digests = {KEY: user_code_digest(compose("luffy", "cpu", [f"{KEY}={file}"]).files[KEY])}
        return request((f"{KEY}={file}",), files=digests).identity()

    first = identity()
    (tmp_path / "stranger.py").write_text("changed = 1")
    assert identity() == first
    for name in ("beside.py", "below/deep.py", "below/other.py"):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(f"{text}\n# changed\n")
        assert identity() != first, name
        (tmp_path / name).write_text(text)
    assert identity() == first


def test_a_module_on_the_path_is_a_file(tmp_path: Path, monkeypatch) -> None:
    package = tmp_path / "my_rewards"
    package.mkdir()
    for name, text in {"__init__": "", "score": "from my_rewards.helper import x", "helper": "x = 1"}.items():
        (package / f"{name}.py").write_text(text)
    with pytest.raises(InputError, match=r"pkg://my_rewards\.score: no such module: put its folder on PYTHONPATH"):
        compose("luffy", "cpu", [f"{KEY}=pkg://my_rewards.score"])
    monkeypatch.syspath_prepend(tmp_path)
    assert compose("luffy", "cpu", [f"{KEY}=pkg://my_rewards.score"]).files == {KEY: package / "score.py"}
    assert [path.name for path in source_files(package / "score.py")] == ["__init__.py", "helper.py", "score.py"]


def test_packages_that_are_installed_beside_a_module_are_not_part_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    (folder / "mine").mkdir(parents=True)
    files = {"single.py": "import other", "other.py": "", "mine/__init__.py": "", "mine/score.py": "import other"}
    for name, text in files.items():
        (folder / name).write_text(text)
    assert source_files(folder / "single.py") == [folder / "single.py"]
    assert source_files(folder / "mine/score.py") == [folder / "mine/__init__.py", folder / "mine/score.py"]


@pytest.mark.parametrize(
    ("code", "phrase"),
    [
        ("def other(): ...", "has no function 'compute_score'"),
        ("raise OSError('no key')", "its import raised OSError: no key"),
        ("import nothing_of_this_name", "its import raised ModuleNotFoundError"),
        (
            "def compute_score(text, gold): return 1",
            "does not take data_source, solution_str, ground_truth, extra_info",
        ),
        ("def compute_score(:", "its import raised SyntaxError"),
    ],
)
def test_a_reward_function_that_cannot_be_called_is_refused(tmp_path: Path, code: str, phrase: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(code)
    with pytest.raises(InputError, match=phrase):
        check_reward_function({"path": str(file), "name": "compute_score"})


@pytest.mark.parametrize(
    ("body", "phrase"),
    [
        ("return {}['weight']", "raised KeyError: 'weight' for a sample of row r7 with gold answer '12'"),
        ("return None", "returned None, expected a number, or a mapping with one as its score, for a sample of row r7"),
        ("return {'acc': 1.0}", "returned {'acc': 1.0}, expected a number"),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_error_of_a_reward_function_names_it_and_the_sample(
    tmp_path: Path, kind: str, body: str, phrase: str
) -> None:
    file = tmp_path / f"mine_{len(body)}_{kind[0]}.py"
    file.write_text(f"{kind} score(data_source, solution_str, ground_truth, extra_info):\n    {body}\n")
    call = reward_section({"path": str(file), "name": "score"}, {})["reward_kwargs"]
    sample = {"data_source": "d", "solution_str": "s", "ground_truth": "12", "extra_info": {"id": "r7"}}
    with pytest.raises(RewardError) as raised:
        asyncio.run(compute_score(**sample, **call))
    assert phrase in str(raised.value) and str(raised.value).startswith(f"{file}: score ")


def test_a_reward_function_has_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    section = {"path": os.fspath(tmp_path / "mine.py"), "name": "compute_score", "reward_kwargs": {"bonus": 0.5}}
    check_reward_function(section)
    sample = {"data_source": "d", "solution_str": "s", "ground_truth": "12", "extra_info": {}}
    assert asyncio.run(compute_score(**sample, **reward_section(section, {})["reward_kwargs"])) == 1.5


def test_rows_without_an_id_are_told_apart_by_their_prompts() -> None:
    from training.verl_hooks.agent_loop import prompt_id

    def named(problem: str, **extra: object) -> str:
        return prompt_id({"raw_prompt": [{"role": "user", "content": problem}], "extra_info": extra, "index": 0})

    assert named("1+1=?") == named("1+1=?") != named("1+2=?")
    assert (named("1+1=?", index=0), named("1+1=?", index=3), named("x", id="r", index=3)) == ("0", "3", "r")
