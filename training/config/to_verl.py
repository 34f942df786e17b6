"""Write a run as the configuration of verl: the file that verl ships, what all our runs change, and the run's values.

OmegaConf merges them and resolves references. Keys of ours that verl lacks stand next to verl's, for the hooks.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from core import PROJECT
from core.errors import InputError
from core.files import read_yaml
from core.model.chat_template import ChatTemplate
from core.model.prompts import CHAT, TEMPLATE_KWARGS, Template
from grading.tools.settings import ToolSettings
from training.config.compose import compose, merged, nested
from training.config.method_keys import lay_out_method
from training.config.run import SEPARATE, Run
from training.config.teacher_settings import lengthen_context
from training.config.verl_keys import SHARED, is_reference, kind_of, verl_file
from training.methods import resolved

CONFIG = PROJECT / "training" / "config"
TOOLS = "tools"  # our key for the tools of a run, and the format of their calls
ROUTER = "training/verl_hooks/asynchronous/router.yaml"

# For two updates per batch; an odd number has no half, so such a batch is one update.
OmegaConf.register_new_resolver("half", lambda number: number // (2 - number % 2), replace=True)
OmegaConf.register_new_resolver("at_least", lambda least, *parts: max(least, sum(parts)), replace=True)


@cache
def verl_defaults() -> dict[str, Any]:
    """Return verl's defaults of a training, from the file that verl ships with its parts merged."""
    if (file := verl_file()) is None:
        raise InputError("this interpreter has no verl: run `luffy setup`, and use the Python that it builds")
    return yaml.load(file.read_bytes(), yaml.CSafeLoader)


def compose_run(recipe: str, hardware: str, overrides: Sequence[str], *, run: Path) -> DictConfig:
    """Return verl's configuration of the run in folder ``run``; errors as for `compose` and `to_verl`."""
    return to_verl(compose(recipe, hardware, overrides).run, run)


def to_verl(run: Run, folder: Path) -> DictConfig:
    """Return the resolved configuration with which verl carries ``run`` out in ``folder``.

    Raises:
        InputError: a reference to no key, or values that exclude each other.
    """
    paths = {"paths": {"project": str(PROJECT), "run": str(folder)}}
    values = verl_defaults()
    for layer in (read_yaml(SHARED, "configuration"), _ours(run), nested(run.verl.items()), paths):
        values = merged(values, layer, ())
    try:
        config = OmegaConf.create(values)
        rollout = config.actor_rollout_ref.rollout
        if rollout.max_model_len is None:
            rollout.max_model_len = config.data.max_prompt_length + config.data.max_response_length
        OmegaConf.resolve(config)
    except OmegaConfBaseException as error:
        raise InputError(f"configuration: {str(error).splitlines()[0]}") from error
    for key in (key for key, value in run.verl.items() if is_reference(value)):
        kind, value = kind_of(key), OmegaConf.select(config, key)
        if kind and not kind.holds(OmegaConf.to_object(value) if OmegaConf.is_config(value) else value):
            raise InputError(f"{key}: got {value!r:.80}, expected {kind.text}")
    OmegaConf.set_struct(config, True)
    lay_out_method(config)
    _check_values(config)
    lengthen_context(config)
    _lay_out_rollouts(config)
    return config


def _ours(run: Run) -> dict[str, Any]:
    """Return the sections of ``run`` where verl's trainers and our hooks look for them."""
    values = run.model_dump(exclude={"verl", "rollouts", "rollout", "machine", "policy"})
    data, machine = values["data"], run.machine.model_dump(exclude_none=True)
    data["seed"] = run.seed if data["seed"] is None else data["seed"]
    if not run.reward.custom_reward_function.reward_kwargs:
        del values["reward"]["custom_reward_function"]["reward_kwargs"]
    mode = {"max_staleness": 1, "stale_samples": "wait", "gpus": "auto"} | run.rollouts.model_dump()
    return {
        **values,
        **machine,
        "method": resolved(run.method),
        "objective": "rl",  # `lay_out_method` says what it is
        "rollouts": mode["type"],
        "max_staleness": mode["max_staleness"],
        "stale_samples": mode["stale_samples"],
        "rollout_gpus": mode["gpus"],
        "rollout_precision": run.rollout.precision,
        "seeded_sampling": run.rollout.seeded,
        "policy_dtype": run.policy.dtype,
        "policy_from": run.policy.source,
        "chat_template_kwargs": {**TEMPLATE_KWARGS, **data.pop("chat_template_kwargs")},
    }


def _check_values(config: DictConfig) -> None:
    """Raise InputError for two values that contradict each other."""
    data, actor = config.data, config.actor_rollout_ref.actor
    context = config.actor_rollout_ref.rollout.max_model_len
    batch, update = data.train_batch_size, actor.ppo_mini_batch_size
    if config.objective == "rl" and batch % update:
        raise InputError(
            f"data.train_batch_size={batch} and actor_rollout_ref.actor.ppo_mini_batch_size={update} contradict each "
            "other: a batch is cut into whole updates. Set the second to a divisor of the first"
        )
    if not actor.use_dynamic_bsz and actor.ppo_micro_batch_size_per_gpu is None:
        raise InputError(
            "actor_rollout_ref.actor.use_dynamic_bsz=false: micro-batches then have a fixed number of rows. Set "
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu too, such as to 4"
        )
    if context < data.max_prompt_length + data.max_response_length:
        raise InputError(
            f"actor_rollout_ref.rollout.max_model_len={context} and data.max_prompt_length={data.max_prompt_length} + "
            f"data.max_response_length={data.max_response_length} contradict each other: leave the first out, "
            "and the others set it"
        )


def _lay_out_rollouts(config: DictConfig) -> None:
    """Set verl's keys for the rollouts of ``config``; synchronous ones keep verl's defaults."""
    if config.rollout_precision != "auto":
        set_precision(config, config.rollout_precision)
    if config.rollouts == "sync":
        return
    sampler = config.trainer.v1.sampler
    # verl counts the steps from the one that dispatched a group to the one that trains on it, both included.
    sampler.max_off_policy_threshold = config.max_staleness + 1
    sampler.max_off_policy_strategy = config.stale_samples
    if config.rollouts != SEPARATE:
        return
    rollout = config.actor_rollout_ref.rollout
    if rollout.router_config_path is not None:
        raise InputError(
            f"actor_rollout_ref.rollout.router_config_path={rollout.router_config_path} and rollouts.type={SEPARATE} "
            "contradict each other: its router measures how long rollouts are idle. Leave the first out"
        )
    rollout.router_config_path = f"{config.paths.project}/{ROUTER}"
    config.actor_rollout_ref.hybrid_engine = False
    # One update per mini-batch, and then the weights are sent.
    updates = config.data.train_batch_size // config.actor_rollout_ref.actor.ppo_mini_batch_size
    config.trainer.v1.separate_async.parameter_sync_step = updates
    engine = rollout.checkpoint_engine
    if config.trainer.device == "cpu":
        engine.backend, engine.custom_backend_module = "cpu", "training.platforms.cpu_weights"
    elif engine.backend == "naive":  # verl's default, which cannot leave a GPU
        engine.backend = "nccl"


def set_precision(config: DictConfig, precision: str) -> None:
    """Set the precision in which vLLM generates; fp8 and int4 apply to the weights of linear layers."""
    rollout = config.actor_rollout_ref.rollout
    if precision in ("float32", "bfloat16"):
        rollout.dtype = precision
        return
    if rollout.quantization is not None:
        raise InputError(
            f"rollout.precision={precision} and actor_rollout_ref.rollout.quantization={rollout.quantization} "
            "contradict each other: leave the second out"
        )
    if config.trainer.device == "cpu":  # vLLM's own does not start there: training.platforms.cpu_vllm rounds weights
        rollout.dtype = "float32"
    elif precision == "fp8":
        rollout.dtype, rollout.quantization = "bfloat16", "fp8"
    else:
        raise InputError(
            f"rollout.precision={precision}: only the CPU's simulation has it: set fp8 or bfloat16 on a GPU"
        )


def chat_template(config: DictConfig) -> Template:
    """Return the chat template of a run, with the arguments that ``chat_template_kwargs`` gives it."""
    template = replace(CHAT, kwargs=OmegaConf.to_container(config.chat_template_kwargs))
    tools = tools_of(config)
    return replace(template, tools=tools.schemas(), calls=config[TOOLS].calls) if tools else template


def set_tools(config: DictConfig, tools: ToolSettings | None, model: Path) -> None:
    """Let the policy, which starts from ``model``, call the tools that its targets were prepared with.

    Raises:
        InputError: the chat template of the model or the prefixes of the method do not fit them.
    """
    if tools is None:
        return
    prefix = config.method.get("prefix")
    if not tools.replay and prefix and prefix.min < 1:
        raise InputError(
            f"method.prefix.min: {prefix.min:g} lets real tools continue targets, and tools.replay is false: "
            "set one of them to 1 and true"
        )
    with open_dict(config):
        config[TOOLS] = {"settings": tools.model_dump_json(), "calls": tools.format_of(ChatTemplate(model))}


def tools_of(config: DictConfig) -> ToolSettings | None:
    """Return the tools of a run; None without any."""
    return ToolSettings.model_validate_json(config[TOOLS].settings) if config.get(TOOLS) else None
