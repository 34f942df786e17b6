"""Settings: profile, environment, and one message for each mistake."""

from pathlib import Path

import pytest

from core.errors import InputError
from core.plugins.config_files import PROFILES, config_names
from evaluation.benchmarks.suite import load_suite
from pipelines.cli.experiments import comparison
from pipelines.definitions.profile_settings import StorageSettings
from tests.defs.project import settings_of


def test_the_shipped_profiles_are_valid():
    assert {*config_names(PROFILES)} == {
        "choice",
        "code",
        "comparison",
        "drift",
        "embedded",
        "gym",
        "paper",
        "products",
        "rounds",
        "small",
        "words",
    }
    assert settings_of().suite.name == "embedded"
    assert settings_of(LUFFY_PROFILE="").suite.name == "embedded"
    assert settings_of(LUFFY_PROFILE="small").training.hardware == "cpu"
    paper = settings_of(LUFFY_PROFILE="paper")
    assert (paper.training.hardware, paper.suite.name, paper.targets.max_target_tokens) == ("gpu", "paper", 8192)


def test_a_profile_may_be_a_file_and_say_little(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("training: {seed: 3}\n")
    settings = settings_of(LUFFY_PROFILE=str(tmp_path / "mine.yaml"))
    assert settings.training.seed == 3
    assert settings.storage == StorageSettings()


def test_a_profile_extends_its_base_by_key_and_replaces_everything_else(tmp_path: Path):
    (tmp_path / "first.yaml").write_text(
        "base: embedded\nexperiments: {seeds: {default: 2, sft: 3}}\ntraining: {overrides: [data.shuffle=false]}\n"
    )
    (tmp_path / "second.yaml").write_text(f"base: {tmp_path}/first.yaml\nexperiments: {{seeds: {{luffy: 5}}}}\n")
    settings, embedded = settings_of(LUFFY_PROFILE=str(tmp_path / "second.yaml")), settings_of()
    assert settings.experiments.seeds == {"default": 2, "sft": 3, "luffy": 5}
    assert settings.training.overrides == [*embedded.training.overrides, "data.shuffle=false"]
    assert settings.promotion == embedded.promotion != type(embedded.promotion)()
    assert settings_of(LUFFY_PROFILE=str(tmp_path / "second.yaml"), LUFFY__TRAINING__OVERRIDES="[]").training == (
        embedded.training.model_copy(update={"overrides": []})
    )


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
    assert [entry.name for entry in settings_of(LUFFY_PROFILE=mine).benchmark_suite()] == ["law", "more_law"]
    only = settings_of(LUFFY_PROFILE=mine, LUFFY__SUITE__ONLY="[more_law]").benchmark_suite()
    assert [entry.title for entry in only] == ["Other law"]
    request = comparison(settings_of(LUFFY_PROFILE=mine), ["a model"], tmp_path / "graded", tmp_path)
    assert load_suite(request.suite) == settings_of(LUFFY_PROFILE=mine).benchmark_suite()
    with pytest.raises(InputError, match=r"arithmetic: not in suite\.benchmarks, which has law, more_law"):
        settings_of(LUFFY_PROFILE=mine, LUFFY__SUITE__ONLY="[arithmetic]").benchmark_suite()
    (tmp_path / "mine.yaml").write_text(BENCHMARKS % "law")
    with pytest.raises(InputError, match=r"suite\.benchmarks: law named more than once; give each its own name"):
        settings_of(LUFFY_PROFILE=mine)


def test_profiles_that_are_the_base_of_each_other_are_named(tmp_path: Path):
    for name, base in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"base: {tmp_path}/{base}.yaml\n")
    with pytest.raises(InputError, match=r"a base of itself \(a -> b -> c -> a\)"):
        settings_of(LUFFY_PROFILE=str(tmp_path / "a.yaml"))
    (tmp_path / "c.yaml").write_text("base: nowhere\n")
    with pytest.raises(InputError, match=r"profile .*/c\.yaml: base: no profile 'nowhere': expected one of "):
        settings_of(LUFFY_PROFILE=str(tmp_path / "a.yaml"))


MATRIX = """
experiments:
  matrix:
    - name: "{name}"
      recipe: luffy
      axes: {{k: [1, 4], type: [none, tis]{axes}}}
      overrides: ["max_staleness={{k}}", "{override}"]
      seeds: 5
  variants: {{{variants}}}
  seeds: {{default: 2, stale_4_tis: 3}}
"""


def spanned(
    folder: Path, name="stale_{k}_{type}", override="mixed.rollout_correction.type={type}", variants="", axes="", **env
):
    (folder / "p.yaml").write_text(MATRIX.format(name=name, override=override, variants=variants, axes=axes))
    return settings_of(LUFFY_PROFILE=str(folder / "p.yaml"), **env).experiments


def test_a_matrix_names_a_variant_for_each_combination(tmp_path: Path):
    experiments = spanned(tmp_path, variants="own: {recipe: sft}")
    assert list(experiments.variants) == ["stale_1_none", "stale_1_tis", "stale_4_none", "stale_4_tis", "own"]
    assert experiments.variants["stale_4_none"].overrides == ["max_staleness=4", "mixed.rollout_correction.type=none"]
    assert [experiments.seeds_of(name) for name in experiments.variants] == [5, 5, 5, 3, 2]
    nothing = spanned(tmp_path, override="trainer.max_steps={none}", axes=", none: [null]")
    assert nothing.variants["stale_1_tis"].overrides == ["max_staleness=1", "trainer.max_steps=null"]
    single = spanned(tmp_path, LUFFY__EXPERIMENTS__SEEDS="1")
    assert {single.seeds_of(name) for name in single.variants} == {1}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "stale_{j}"}, r"no axis 'j'; the axes are k, type"),
        ({"name": "stale_{k}"}, r"two variants are named 'stale_1'"),
        ({"name": "{k}/{type}"}, r"experiments\.variants"),
        ({"override": "trainer.default_local_dir={type}"}, r"storage\.root"),
    ],
)
def test_a_matrix_that_names_no_variants_is_refused(changes: dict, said: str, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        spanned(tmp_path, **changes)


def test_the_environment_overrides_single_keys():
    settings = settings_of(
        **{
            "LUFFY__TARGETS__SOURCE": "/data/traces.parquet",
            "LUFFY__TARGETS__MAPPING": "{problem: question, answer: gold, response: text}",
            "LUFFY__TRAINING__OVERRIDES": "['trainer.total_training_steps=3']",
            "LUFFY__EVALUATION__SAMPLES": "4",
        }
    )
    assert settings.targets.source == ["/data/traces.parquet"]
    assert settings.targets.mapping.problem == "question"
    assert settings.targets.max_prompt_tokens == 64  # the profile's
    assert settings.training.overrides == ["trainer.total_training_steps=3"]
    assert settings.evaluation.samples == 4


@pytest.mark.parametrize(
    ("environment", "parts"),
    [
        (
            {"LUFFY__TRAINING__RECIPEE": "x"},
            ["LUFFY__TRAINING__RECIPEE", "training.recipee", "mean recipe?", "recipe, hardware"],
        ),
        ({"LUFFY__TRANING__SEED": "1"}, ["variable LUFFY__TRANING__SEED; did you mean TRAINING? expected"]),
        (
            {"LUFFY__NOTIFY__WEBHOOKS": "5", "LUFFY__EXPERIMENTS__SEEDS__LUFFY": "abc"},
            ["variable LUFFY__NOTIFY__WEBHOOKS: notify.webhooks is not a setting"],
        ),
        (
            {"LUFFY__EXPERIMENTS__SEEDS__DEFAULT": "2", "LUFFY__EXPERIMENTS__SEEDS__LUFFY": "abc"},
            ["variable LUFFY__EXPERIMENTS__SEEDS__LUFFY: experiments.seeds.luffy"],
        ),
        (
            {"LUFFY__EXPERIMENTS__SEEDS": "{default: x}", "LUFFY__EXPERIMENTS__SEEDS__LUFFY": "3"},
            ["variable LUFFY__EXPERIMENTS__SEEDS: experiments.seeds.default"],
        ),
        ({"LUFFY__GENERATE__TEACHER": "x"}, ["variable LUFFY__GENERATE__TEACHER: generate.problems"]),
        (
            {"LUFFY__EXPERIMENTS__MATRIX": "[{name: a, recipe: luffy}]", "LUFFY__EXPERIMENTS__RUNS": "r"},
            ["variable LUFFY__EXPERIMENTS__MATRIX: experiments.matrix.0.axes"],
        ),
        ({"LUFFY_TRAINING__SEED": "1"}, ["variable LUFFY_TRAINING__SEED", "did you mean LUFFY__TRAINING__SEED?"]),
        (
            {"LUFFY__TRAINING__SEED": "1", "luffy__training__seed": "2"},
            ["variables LUFFY__TRAINING__SEED and luffy__training__seed set the same setting"],
        ),
        ({"LUFFY__TRAINING": "1"}, ["LUFFY__TRAINING", "SECTION__KEY"]),
        ({"LUFFY__TRAINING__SEED": "many"}, ["LUFFY__TRAINING__SEED", "training.seed", "integer", "many"]),
        ({"LUFFY__EVALUATION__TOP_P": "1.5"}, ["LUFFY__EVALUATION__TOP_P", "less than or equal to 1"]),
        (
            {"LUFFY__TRAINING__RECIPE": "nope"},
            ["LUFFY__TRAINING__RECIPE", "no recipe 'nope'", "luffy, luffy_opd"],
        ),
        ({"LUFFY__TRAINING__HARDWARE": "tpu"}, ["LUFFY__TRAINING__HARDWARE", "no hardware 'tpu'", "cpu, gpu"]),
        (
            {"LUFFY__TRAINING__OVERRIDES": "[actor_rollout_ref.actor.grad_clip=2]"},
            ["LUFFY__TRAINING__OVERRIDES", "grad_clip cannot be set", "actor_rollout_ref.actor.optim.clip_grad"],
        ),
        ({"LUFFY__TRAINING__OVERRIDES": "['paths.run=/elsewhere']"}, ["paths.run says where", "storage.root"]),
        ({"LUFFY__TRAINING__OVERRIDES": "[++trainer.default_local_dir=/x]"}, ["default_local_dir says where"]),
        ({"LUFFY__EXPERIMENTS__OVERRIDES": "{sft: ['paths.run=/x']}"}, ["experiments.overrides", "paths.run says"]),
        ({"LUFFY__NOTIFY__CHANNEL": "pigeon"}, ["LUFFY__NOTIFY__CHANNEL", "expected one of url_variables"]),
        ({"LUFFY__TARGETS__SOURCE": "[a"}, ["LUFFY__TARGETS__SOURCE", "YAML"]),
        ({"LUFFY_PROFILE": "paperr"}, ["paperr", "comparison, drift, embedded, gym, paper, products, rounds, small"]),
    ],
)
def test_a_mistake_is_one_message_that_names_it(environment, parts):
    with pytest.raises(InputError) as caught:
        settings_of(**environment)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("training: {recipe: [", "not YAML"),
        ("- a\n- b\n", "expected a mapping"),
        ("training: 3\n", "training: Input should be a mapping of keys to values (got 3)"),
        ("trainning: {seed: 1}\n", "trainning is not a setting"),
        ("training: {seeds: 1}\n", "training.seeds is not a setting"),
        ("targets: {max_target_tokens: 0}\n", "targets.max_target_tokens"),
        (
            "evaluation: {samples: 0}\n",
            "evaluation.samples: Input should be greater than 0, or 'until_decided' (got 0)",
        ),
    ],
)
def test_a_wrong_profile_names_the_file_and_the_key(tmp_path: Path, text: str, part: str):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=r"mine\.yaml") as caught:
        settings_of(LUFFY_PROFILE=str(tmp_path / "mine.yaml"))
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("training: {seed: x}", {"LUFFY__TRAINING__RECIPE": "sft"}),
        ("generate: {teacher: x}", {"LUFFY__GENERATE__SAMPLES": "2"}),
        ("experiments: {seeds: {default: 1, sft: x}}", {"LUFFY__EXPERIMENTS__SEEDS": "{luffy: 2}"}),
    ],
)
def test_a_mistake_in_a_profile_is_not_blamed_on_a_variable(tmp_path: Path, text: str, variables: dict[str, str]):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=r"^profile .*mine\.yaml: "):
        settings_of(LUFFY_PROFILE=str(tmp_path / "mine.yaml"), **variables)


def test_two_spellings_of_one_value_are_no_mistake():
    assert settings_of(LUFFY__TRAINING__SEED="3", Luffy__Training__Seed="3").training.seed == 3


def test_an_unknown_benchmark_lists_those_of_the_suite():
    with pytest.raises(InputError, match=r"aime26.*aime24, aime25"):
        settings_of(LUFFY_PROFILE="paper", LUFFY__SUITE__ONLY="[aime26]").benchmark_suite()
