"""Settings: profile, environment, and one message for each mistake."""

from pathlib import Path

import pytest

from core.errors import InputError
from core.plugins.config_files import PROFILES, config_names
from core.settings import SECTIONS, read_run, write_run
from pipelines.settings import Settings
from tests.defs.project import settings_of
from training.config.run import settable
from training.settings import TrainingSettings


def test_the_shipped_profiles_are_valid():
    assert settings_of().suite.name == "embedded"
    assert settings_of(LUFFY_PROFILE="").suite.name == "embedded"
    assert settings_of(LUFFY_PROFILE="small").training.hardware == "cpu"
    paper = settings_of(LUFFY_PROFILE="paper")
    assert (paper.training.hardware, paper.suite.name, paper.targets.max_target_tokens) == ("gpu", "paper", 8192)


def test_a_profile_extends_its_base_by_key_and_replaces_everything_else(tmp_path: Path):
    (tmp_path / "first.yaml").write_text(
        "base: embedded\ncatalog: {owners: {targets: [team:a], evals: [team:b]}}\n"
        "training: {config: {data: {shuffle: false}}}\n"
    )
    (tmp_path / "second.yaml").write_text(f"base: {tmp_path}/first.yaml\ncatalog: {{owners: {{ood: [team:c]}}}}\n")
    settings, embedded = settings_of(LUFFY_PROFILE=str(tmp_path / "second.yaml")), settings_of()
    assert settings.catalog.owners == {"targets": ["team:a"], "evals": ["team:b"], "ood": ["team:c"]}
    data = embedded.training.config["data"]
    assert settings.training.config == embedded.training.config | {"data": data | {"shuffle": False}}
    assert settings.promotion == embedded.promotion != type(embedded.promotion)()


BENCHMARKS = """
benchmarks: {roots: [.]}
suite:
  benchmarks:
    - {name: law, group: evals, title: Law, verifier: exact, sources: [{file: law.jsonl}]}
    - {name: %s, group: ood, title: Other law, verifier: exact, sources: [{file: other.jsonl}]}
"""


def test_a_profile_brings_benchmarks_of_its_own(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(BENCHMARKS % "more_law")
    mine = str(tmp_path / "mine.yaml")
    assert [entry.name for entry in settings_of(LUFFY_PROFILE=mine).suite.entries()] == ["law", "more_law"]
    only = settings_of(LUFFY_PROFILE=mine, LUFFY__SUITE__ONLY="[more_law]").suite.entries()
    assert [entry.title for entry in only] == ["Other law"]
    with pytest.raises(InputError, match=r"arithmetic: not in suite\.benchmarks, which has law, more_law"):
        settings_of(LUFFY_PROFILE=mine, LUFFY__SUITE__ONLY="[arithmetic]").suite.entries()
    (tmp_path / "mine.yaml").write_text(BENCHMARKS % "law")
    with pytest.raises(InputError, match=r"suite\.benchmarks: law named more than once; give each another name"):
        settings_of(LUFFY_PROFILE=mine)


def test_profiles_that_are_the_base_of_each_other_are_named(tmp_path: Path):
    for name, base in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"base: {tmp_path}/{base}.yaml\n")
    with pytest.raises(InputError, match=r"a base of itself \(a -> b -> c -> a\)"):
        settings_of(LUFFY_PROFILE=str(tmp_path / "a.yaml"))
    (tmp_path / "c.yaml").write_text("base: nowhere\n")
    with pytest.raises(InputError, match=r"profile .*/c\.yaml: base: no profile 'nowhere': expected one of "):
        settings_of(LUFFY_PROFILE=str(tmp_path / "a.yaml"))


def test_the_environment_overrides_single_keys():
    settings = settings_of(
        **{
            "LUFFY__TARGETS__SOURCE": "/data/traces.parquet",
            "LUFFY__TARGETS__MAPPING": "{problem: question, answer: gold, response: text}",
            "LUFFY__TRAINING__CONFIG__ACTOR_ROLLOUT_REF__ACTOR__OPTIM__LR": "3e-4",
            "LUFFY__EVALUATION__SAMPLES": "4",
        }
    )
    assert settings.targets.source == ["/data/traces.parquet"]
    mapping = settings.targets.mapping
    assert not isinstance(mapping, str) and mapping.problem == "question"
    assert settings.targets.max_prompt_tokens == 64  # the profile's
    assert settings.training.config["actor_rollout_ref"]["actor"]["optim"]["lr"] == "3e-4"
    assert settings.training.config["trainer"] == {"total_training_steps": 30, "save_freq": 30}  # the profile's
    assert settings.evaluation.samples == 4


@pytest.mark.parametrize(
    ("environment", "parts"),
    [
        (
            {"LUFFY__NOTIFY__WEBHOOKS": "5", "LUFFY__CATALOG__OWNERS__TARGETS": "abc"},
            ["variable LUFFY__NOTIFY__WEBHOOKS: notify.webhooks is not a setting", "expected one of url_variables"],
        ),
        (
            {"LUFFY__CATALOG__OWNERS__EVALS": "[team:a]", "LUFFY__CATALOG__OWNERS__TARGETS": "3"},
            ["variable LUFFY__CATALOG__OWNERS__TARGETS: catalog.owners.targets"],
        ),
        ({"LUFFY__GENERATE__TEACHER": "x"}, ["variable LUFFY__GENERATE__TEACHER: generate.problems"]),
        (
            {"LUFFY__TRAINING__SEED": "1", "luffy__training__seed": "2"},
            ["variables LUFFY__TRAINING__SEED and luffy__training__seed set the same setting"],
        ),
        ({"LUFFY__TRAINING__CONFIG": "{data.shuffle: true}"}, ["expected nested keys, as {data: {shuffle: …}}"]),
    ],
)
def test_a_mistake_is_one_message_that_names_it(environment, parts):
    with pytest.raises(InputError) as caught:
        settings_of(**environment)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("training: {seed: x}", {"LUFFY__TRAINING__RECIPE": "sft"}),
        ("generate: {teacher: x}", {"LUFFY__GENERATE__SAMPLES": "2"}),
        ("catalog: {owners: {targets: 3}}", {"LUFFY__CATALOG__OWNERS": "{evals: [team:a]}"}),
    ],
)
def test_a_mistake_in_a_profile_is_not_blamed_on_a_variable(tmp_path: Path, text: str, variables: dict[str, str]):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=r"^profile .*mine\.yaml: "):
        settings_of(LUFFY_PROFILE=str(tmp_path / "mine.yaml"), **variables)


def test_the_sections_that_commands_know_are_those_of_the_settings():
    assert sorted(SECTIONS) == sorted(Settings.model_fields)


def test_the_settings_of_a_run_are_read_as_they_were_written(tmp_path: Path):
    for profile in config_names(PROFILES):
        settings = settings_of(LUFFY_PROFILE=profile)
        file = write_run(settings, tmp_path / f"{profile}.yaml")
        assert read_run(file, Settings).model_dump() == settings.model_dump(), profile


def test_no_option_of_a_training_is_a_second_spelling_of_a_key_of_its_configuration() -> None:
    names = {key.rpartition(".")[2] for key in settable()}
    assert {"seed", "max_response_length"} <= names
    assert set(TrainingSettings.model_fields) & names == {"recipe", "seed"}  # what a request names
