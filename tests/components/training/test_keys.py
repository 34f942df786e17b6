"""Every leaf of the configuration is read or refused: no value that a user sets is lost."""

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from core.errors import InputError
from training.config.keys import check_key, check_switches, leaves, nearest, read_by, rules, within
from training.config.ranges import ranges
from training.job import configuration
from training.job.configuration import compose_run
from training.resources.attention import AUTO, KERNELS
from training.resources.auto_values import PRECISIONS
from training.resources.layout import OFFLOADS

RUN = Path("run")
READS = yaml.safe_load(Path(__file__).with_name("config_reads.yaml").read_text(encoding="utf-8"))
# What the recorded runs cannot show: KEY or SECTION, and why a run reads it all the same.
ALSO_READ = {
    "chat_template_kwargs": "handed to the chat template of the model as it is",
    "environment": "handed to the processes of the job as it is",
    "ray_kwargs": "handed to Ray as it is",
    "actor_rollout_ref.rollout.engine_kwargs.vllm": "handed to vLLM as it is",
    "actor_rollout_ref.model.override_config": "handed to the model's configuration as it is",
    "attention": "the command chooses the kernel by it (training.resources.attention)",
    "offload": "the command says by it what leaves the GPU (training.resources.auto_values)",
    "rollouts": "the command chooses verl's trainer by it (training.config.rollout_modes)",
    "max_staleness": "verl gets it as another number (training.config.rollout_modes)",
    "stale_samples": "verl gets it under another name (training.config.rollout_modes)",
    "teacher": "the command lays out verl's section distillation by it (training.config.teacher_settings)",
    "rollout_gpus": "the command shares out the GPUs by it (training.resources.auto_values)",
    "policy_dtype": "the command writes the policy with it (training.job.checkpoints)",
    "method": "the class of the method validates them (training.job.configuration.method_of)",
    "mixed": "test_every_option_of_the_algorithm_changes_what_is_computed",
    "data.order": "the command orders the file of targets by it (training.job.input_checks)",
    "first_stage": "the command starts the first stage (training.launch)",
    "policy_from": "the command chooses the checkpoint (training.job.checkpoints)",
    "compute": "the command turns it into mixed_precision (training.resources.auto_values)",
    "run": "the command carries the run out (training.launch)",
    "trainer.total_training_steps": "the command follows the steps",
    "trainer.total_epochs": "the command makes steps of it, where total_training_steps is null",
    "transfer_queue.backend": "handed to TransferQueue as it is",
    "transfer_queue.metrics": "handed to TransferQueue as it is",
    "actor_rollout_ref.actor.fsdp_config.wrap_policy": "handed to FSDP as it is",
    "actor_rollout_ref.ref.fsdp_config.wrap_policy": "handed to FSDP as it is",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision": "handed to FSDP as it is",
    "actor_rollout_ref.ref.fsdp_config.mixed_precision": "handed to FSDP as it is",
    "actor_rollout_ref.actor.fsdp_config.dtype": "the engine's autocast, on a GPU",
    "actor_rollout_ref.ref.fsdp_config.dtype": "the engine's autocast, on a GPU",
    "actor_rollout_ref.actor.fsdp_config.use_orig_params": "FSDP1 reads it (actor.strategy=fsdp)",
    "actor_rollout_ref.ref.fsdp_config.use_orig_params": "FSDP1 reads it (ref.strategy=fsdp)",
    "actor_rollout_ref.actor.fsdp_config.seed": "read with full_determinism",
    "actor_rollout_ref.ref.fsdp_config.seed": "read with full_determinism",
    "actor_rollout_ref.actor.fsdp_config.entropy_from_logits_chunk_size": "read with chunking",
    "actor_rollout_ref.ref.fsdp_config.entropy_from_logits_chunk_size": "read with chunking",
    "actor_rollout_ref.actor.fsdp_config.qat": "read with qat.enable",
    "actor_rollout_ref.actor.checkpoint.strict": "read when a checkpoint is loaded",
    "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio": "read without optim.lr_warmup_steps",
    "actor_rollout_ref.actor.strategy": "the class of the section hands it to the engine",
    "actor_rollout_ref.model.lora_adapter_path": "the engine loads it",
    "actor_rollout_ref.ref.strategy": "the class of the section hands it to the engine",
    "actor_rollout_ref.rollout.prometheus": "read with prometheus.enable",
    "actor_rollout_ref.rollout.qat": "read with qat.enable",
    "actor_rollout_ref.rollout.quantization_config_file": "read with rollout.quantization",
    "actor_rollout_ref.model.use_shm": "the class of the section copies the model with it",
    "actor_rollout_ref.model.external_lib": "the class of the section imports it",
    "actor_rollout_ref.model.lora_alpha": "read with lora_rank",
    "actor_rollout_ref.model.target_modules": "read with lora_rank",
    "actor_rollout_ref.model.exclude_modules": "read with lora_rank",
    "actor_rollout_ref.model.fused_kernel_options": "read with use_fused_kernels",
    "actor_rollout_ref.model.tiled_mlp": "the worker turns it into a plain dictionary first",
    "reward.reward_manager.module": "read with source=importlib",
    "algorithm.kl_ctrl.horizon": "read with type=adaptive",
    "algorithm.kl_ctrl.target_kl": "read with type=adaptive",
    "global_profiler": "profilers read their options once global_profiler.tool names one",
    "actor_rollout_ref.actor.profiler": "profilers read their options once global_profiler.tool names one",
    "actor_rollout_ref.ref.profiler": "profilers read their options once global_profiler.tool names one",
    "actor_rollout_ref.rollout.profiler": "profilers read their options once global_profiler.tool names one",
}


WITHOUT_RANGE = {
    "actor_rollout_ref.actor.fsdp_config.wrap_policy.min_num_params": "0 wraps by class",
    "actor_rollout_ref.ref.fsdp_config": "that of the actor",
    "actor_rollout_ref.ref.entropy_from_logits_chunk_size": "that of the actor",
    "actor_rollout_ref.rollout.moe_load_balance_metrics_interval": "0 turns it off",
    "actor_rollout_ref.rollout.qat": "that of the actor",
}


@pytest.fixture(scope="module")
def config() -> DictConfig:
    return compose_run("luffy", "cpu", [], run=RUN)


@pytest.fixture(scope="module")
def raw() -> DictConfig:
    """The configuration with its references."""
    return configuration.compose_files("luffy", "cpu", [], run=RUN)


def settable(config: DictConfig) -> list[str]:
    """The leaves that a user may set: all but those that are refused."""
    keys = [key for key in leaves(OmegaConf.to_container(config)) if not key.endswith("_target_")]
    return [key for key in keys if not within(key, rules().refused)]


def referenced(raw: DictConfig) -> set[str]:
    """The keys that another one refers to, and so hands on."""
    return set(re.findall(r"\$\{(?:oc\.select:)?([\w.]+)", OmegaConf.to_yaml(raw)))


@pytest.mark.parametrize("objective", ["rl", "sft"])
def test_every_leaf_is_read_or_refused(objective: str, config: DictConfig, raw: DictConfig) -> None:
    keys = [key for key in settable(config) if objective == "rl" or not within(key, rules().rollouts_only)]
    assert len(keys) > (250 if objective == "rl" else 120)
    read = {*READS[objective], *ALSO_READ, *referenced(raw)}
    assert [key for key in keys if not within(key, read)] == []


def test_what_the_lists_name_exists(config: DictConfig) -> None:
    keys = list(leaves(OmegaConf.to_container(config)))
    sections = {key[:end] for key in keys for end in (*(m.start() for m in re.finditer(r"\.", key)), len(key))}
    arguments = {"recipe", "hardware"}
    named = {*rules().refused, *rules().read_with, *rules().rollouts_only, *ALSO_READ}
    assert named - sections == arguments
    switches = {
        part.partition("=")[0].removesuffix("!") for text in rules().read_with.values() for part in text.split(" or ")
    }
    assert switches <= set(keys)
    assert not [key for key in (*rules().read_with, *switches) if within(key, rules().refused)]


def test_a_refused_key_names_one_that_works(config: DictConfig) -> None:
    """A key in the reason of a refusal can be set; one that names none says why there is nothing to set."""
    allowed = settable(config)
    for key, reason in rules().refused.items():
        for other in re.findall(
            r"\b(?:actor_rollout_ref|algorithm|data|mixed|reward|run|trainer)(?:\.[a-z_]+)+", reason
        ):
            assert any(within(name, [other]) for name in allowed), f"{key}: {other}"


REFUSED = list(rules().refused)


@pytest.mark.parametrize("key", REFUSED)
def test_a_refused_key_is_an_error_that_says_why(key: str) -> None:
    with pytest.raises(InputError, match=re.escape(rules().refused[key])):
        check_key(f"{key}.below")


@pytest.mark.parametrize(
    "key",
    [
        "actor_rollout_ref.actor.grad_clip",
        "algorithm.rollout_correction.bypass_mode",
        "trainer.v1.sampler.sync_refill_failed_groups",
    ],
)
def test_the_command_refuses_it_before_anything_starts(key: str) -> None:
    with pytest.raises(InputError, match=f"--set: {key} cannot be set"):
        compose_run("luffy", "cpu", [f"{key}=1"], run=RUN)
    section, _, name = key.rpartition(".")
    with pytest.raises(InputError, match=f"--set: {key} cannot be set"):
        compose_run("luffy", "cpu", [f"{section}={{{name}: 1}}"], run=RUN)


def test_a_recipe_cannot_set_it_either(tmp_path: Path) -> None:
    text = "defaults:\n  - luffy\nactor_rollout_ref: {actor: {grad_clip: 0.5}}\n"
    (tmp_path / "mine.yaml").write_text(text)
    (tmp_path / "child.yaml").write_text("defaults:\n  - mine\n")
    with pytest.raises(InputError, match=r"recipe mine: actor_rollout_ref.actor.grad_clip .*optim.clip_grad"):
        compose_run(str(tmp_path / "child.yaml"), "cpu", [], run=RUN)


@pytest.mark.parametrize("key", sorted(rules().read_with))
def test_a_key_that_is_switched_off_is_refused_and_one_that_is_on_is_not(key: str, config: DictConfig) -> None:
    for on in (False, True):
        values = pickle.loads(pickle.dumps(config))  # far quicker than deepcopy
        for section in above(key):  # the key itself, and the sections around it
            for switch, present in states(rules().read_with[section], on or section != key):
                OmegaConf.update(values, switch, present)
        if on:
            check_switches(key, lambda switch, values=values: OmegaConf.select(values, switch))
        else:
            with pytest.raises(InputError, match=f"--set: {re.escape(key)} has no effect with"):
                check_switches(key, lambda switch, values=values: OmegaConf.select(values, switch))


def above(key: str) -> Iterator[str]:
    section = within(key, rules().read_with)
    while section:
        yield section
        section = within(section.rpartition(".")[0], rules().read_with)


def states(condition: str, on: bool) -> Iterator[tuple[str, Any]]:
    """Switches, and values of them with which ``condition`` holds or does not."""
    for part in condition.split(" or ")[: 1 if on else None]:
        switch, _, values = part.partition("=")
        listed = switch.endswith("!") != on
        value = yaml.safe_load(values.split("|")[0]) if listed else "another"
        yield switch.removesuffix("!"), value


def test_supervised_training_refuses_what_rollouts_read() -> None:
    with pytest.raises(InputError, match=r"--set: mixed.use_std has no effect with objective=sft"):
        compose_run("sft", "cpu", ["mixed.use_std=true"], run=RUN)
    assert read_by("sft", ["mixed.use_std=true", "seed=3"]) == (["seed=3"], ["mixed.use_std=true"])
    assert read_by("on_policy", ["mixed.use_std=true"]) == (["mixed.use_std=true"], [])


def test_sections_that_are_handed_on_take_any_key() -> None:
    config = compose_run("luffy", "cpu", ["environment.MINE=1", "ray_kwargs.ray_init.log_to_driver=false"], run=RUN)
    assert config.environment.MINE == 1
    config = compose_run("luffy", "cpu", ["chat_template_kwargs={enable_thinking: false}"], run=RUN)
    assert config.chat_template_kwargs == {"strftime_now": "2024-07-26", "enable_thinking": False}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["lr=1"], "did you mean 'actor_rollout_ref.actor.optim.lr'"),
        (["mixed.zzz=1"], "mixed has .*adaptive_entropy.max"),
        (["zzz=4"], "--print-config prints those there are"),
        (
            ["data.train_batch_size=9", "actor_rollout_ref.actor.ppo_mini_batch_size=2"],
            "data.train_batch_size=9 and .*=2 contradict each other",
        ),
        (["actor_rollout_ref.rollout.max_model_len=99"], "max_model_len=99 and .* contradict each other"),
        (
            ["mixed.adaptive_entropy.use=true", "actor_rollout_ref.actor.entropy_coeff=0"],
            "use=True contradicts entropy_coeff=0: it must start above 0",
        ),
        (["trainer.save_freq=-1"], "trainer.save_freq: got -1, expected a whole number from 1"),
        (["trainer.total_training_steps=null", "trainer.total_epochs=0"], "trainer.total_epochs: got 0"),
        (["data.seed"], "expected KEY=VALUE"),
        (["run.trackers=[mlflow"], "--set run.trackers=.mlflow: expected a value in YAML"),
    ],
)
def test_what_a_mistake_is_told(overrides: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compose_run("luffy", "cpu", overrides, run=RUN)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lr", "actor_rollout_ref.actor.optim.lr"),
        ("n_prefix", "mixed.prefix.n_prefix"),
        ("actor_rollout_ref.rollout.n_prefix", "mixed.prefix.n_prefix"),
        ("batch_size", "data.train_batch_size"),
        ("clip_grad", "actor_rollout_ref.actor.optim.clip_grad"),
        ("mixed.adaptive_entropy.targt", "mixed.adaptive_entropy.target"),
        ("zzz", None),
    ],
)
def test_the_nearest_key_is_one_that_recipes_set(typed: str, meant: str | None, config: DictConfig) -> None:
    assert nearest(typed, settable(config), configuration._common_keys()) == meant


def numbers(config: DictConfig) -> list[str]:
    """The keys of numbers that verl's and our files have, outside of the classes that check their own."""
    values = {key: OmegaConf.select(config, key) for key in settable(config)}
    checked = ("mixed", "run.slurm", "max_staleness", "environment", "ray_kwargs")
    free = (
        "global_profiler",
        "actor_rollout_ref.rollout.engine_kwargs",
        *(f"actor_rollout_ref.{part}.profiler" for part in ("actor", "ref", "rollout")),
    )
    return [
        key
        for key, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and not within(key, (*checked, *free))
    ]


def test_every_number_has_a_range(config: DictConfig) -> None:
    ranged = {*ranges(), *WITHOUT_RANGE}
    assert [key for key in numbers(config) if not within(key, ranged)] == []
    keys = set(leaves(OmegaConf.to_container(config)))
    assert [key for key in ranges() if key not in keys] == []


def test_the_names_of_a_key_are_those_that_its_reader_knows() -> None:
    for key, names in (("compute", PRECISIONS), ("attention", KERNELS), ("offload", OFFLOADS)):
        assert set(ranges()[key].names) == {AUTO, *names}
