"""The teacher of a run with ``mixed.distillation``: what its name stands for, and the keys that verl needs for it.

Prompts that show a target are here, too: the whole of it to a teacher (OPSD), its beginning to the policy (POPE).
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.model import endpoints
from core.model.prompts import Messages

if TYPE_CHECKING:
    from omegaconf import DictConfig

MODEL = "teacher.model"
SELF, BASE = "self", "base"  # the policy with its present weights, and the model that a run starts from
WHOLE = (
    "{problem}\n\nThis is a correct solution:\n\n{target}\n\nUse it to understand the problem. Then write a solution "
    "of your own, step by step."
)
BEGINNING = (
    "{problem}\n\nThis is the beginning of a correct solution:\n\n{target}\n\nWork out what it has done so far, and "
    "continue it to the end, step by step."
)
WORDING = 256  # tokens of the words around a target, which are fewer than their bytes
# What the server of a teacher has from that of the rollouts.
SHARED = (
    "enforce_eager",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_chunked_prefill",
    "engine_kwargs",
)


def endpoint_of(model: str) -> tuple[str, str] | None:
    """Return `core.model.endpoints.endpoint_of` the value of ``teacher.model``."""
    return endpoints.endpoint_of(model, f"{MODEL}: ")


def located(model: str, folder: Path) -> str:
    """Return the name of a teacher, with an absolute path if it is a folder; a relative one starts from ``folder``."""
    path = (folder / Path(model).expanduser()).absolute()
    return str(path) if model not in (SELF, BASE) and not endpoint_of(model) and path.is_dir() else model


def has_server(config: "DictConfig") -> bool:
    """Return whether the run starts vLLM for its teacher."""
    model = config.teacher.model
    return config.mixed.distillation.use and model not in (None, SELF) and endpoint_of(model) is None


def teacher_gpus(config: "DictConfig") -> int:
    """Return the number of the teacher's GPUs on each node."""
    return config.teacher.gpus if has_server(config) else 0


def check_distillation(config: "DictConfig") -> None:
    """Raise InputError for keys that contradict a teacher."""
    distillation, model = config.mixed.distillation, config.teacher.model
    if not distillation.use:
        return
    if model is not None:
        endpoint_of(model)
    if model == SELF and not distillation.sees_target:
        raise InputError(
            f"{MODEL}={SELF} and mixed.distillation.sees_target=false contradict each other: the policy agrees with "
            "itself on every token. Set mixed.distillation.sees_target=true, or name another teacher"
        )
    if model == SELF and config.rollouts != "sync":
        raise InputError(
            f"{MODEL}={SELF} and rollouts.type={config.rollouts} contradict each other: the weights can change "
            "between a sample and its score. Set rollouts.type=sync, or name another teacher, such as base"
        )
    if (temperature := config.actor_rollout_ref.rollout.temperature) != 1:
        raise InputError(
            f"mixed.distillation.use=true and actor_rollout_ref.rollout.temperature={temperature} contradict each "
            "other: a teacher's probabilities are those at temperature 1. Set the second to 1"
        )
    if config.algorithm.filter_groups.enable:
        raise InputError(
            "mixed.distillation.use=true and algorithm.filter_groups.enable=true contradict each other: the teacher "
            "has a signal for groups of one outcome, too. Set one of them to false"
        )


def lengthen_context(config: "DictConfig") -> None:
    """Raise the context of vLLM by the target, where a prompt can hold it."""
    distillation, rollout = config.mixed.distillation, config.actor_rollout_ref.rollout
    scores = distillation.use and distillation.sees_target and config.teacher.model == SELF
    if scores or shows_prefix(config):
        share = 1.0 if scores else config.mixed.prefix.max
        rollout.max_model_len += shown_tokens(config, share) + 1  # vLLM generates a token beside a score
        rollout.max_num_batched_tokens = max(rollout.max_num_batched_tokens, rollout.max_model_len)
    if distillation.use:
        rollout.agent.agent_loop_manager_class = "training.verl_hooks.teacher.TeacherLoopManager"


def lay_out_teacher(config: "DictConfig", folder: str) -> None:
    """Set verl's keys for a server with the model in ``folder``, once the GPUs of the run are known."""
    from omegaconf import OmegaConf

    rollout, distillation, gpus = config.actor_rollout_ref.rollout, config.distillation, teacher_gpus(config)
    distillation.enabled = True
    distillation.nnodes, distillation.n_gpus_per_node = config.trainer.nnodes, gpus
    model = distillation.teacher_models.teacher_model
    model.model_path, server = folder, model.inference
    for key in SHARED:
        server[key] = rollout[key]
    on_cpu = config.trainer.device == "cpu"
    server.dtype = config.compute if on_cpu else "bfloat16"
    server.gpu_memory_utilization = config.teacher.gpu_memory_utilization
    OmegaConf.update(server, "enable_sleep_mode", False, force_add=True)  # it has its GPUs for itself
    server.free_cache_engine = False
    server.load_format, server.temperature = "auto", 1.0
    server.prompt_length = longest_scored(config)
    server.response_length = config.data.max_response_length
    server.max_model_len = server.prompt_length + server.response_length + 1
    server.max_num_batched_tokens = max(server.max_num_batched_tokens, server.max_model_len)


def longest_scored(config: "DictConfig") -> int:
    """Return the token limit of a teacher's prompt, with the target or its beginning if the prompt shows it."""
    shares = [1.0] if config.mixed.distillation.sees_target else []
    shares += [config.mixed.prefix.max] if shows_prefix(config) else []
    return config.data.max_prompt_length + max((shown_tokens(config, share) for share in shares), default=0)


def shows_prefix(config: "DictConfig") -> bool:
    """Return whether prompts show the beginning of their target."""
    return config.mixed.prefix.place == "prompt" and config.mixed.prefix.n_prefix != 0


def shown_tokens(config: "DictConfig", share: float = 1.0) -> int:
    """Return the most tokens that a ``share`` of a target adds to the prompt that shows it."""
    return math.ceil(share * config.data.max_response_length) + WORDING


def show_target(conversation: Messages, target: str, *, whole: bool) -> list[dict[str, Any]]:
    """Return ``conversation`` with ``target`` below the problem, and what to do with it; without a target as it is.

    >>> show_target([{"role": "user", "content": "1+1=?"}], "1+1", whole=False)[0]["content"].splitlines()[:5]
    ['1+1=?', '', 'This is the beginning of a correct solution:', '', '1+1']
    """
    if not target:
        return list(conversation)
    problem = conversation[-1]["content"]
    text = (WHOLE if whole else BEGINNING).replace("{target}", target, 1).replace("{problem}", problem, 1)
    return [*conversation[:-1], {**conversation[-1], "content": text}]
