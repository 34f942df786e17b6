"""The teacher of a run (``method.teacher``): what its name stands for, and the keys that verl needs for it.

Prompts that show a target are here, too: the whole of it (OPSD) or its answer (RLSD) to a teacher, its beginning to the
policy (POPE).
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.model import endpoints
from core.model.prompts import Messages

if TYPE_CHECKING:
    from omegaconf import DictConfig

MODEL = "method.teacher.model"
SELF, BASE = "self", "base"  # the policy with its present weights, and the model that a run starts from
WORDS = {
    "target": "{problem}\n\nThis is a correct solution:\n\n{target}\n\nUse it to understand the problem. Then write a "
    "solution of your own, step by step.",
    "sample": "{problem}\n\nThis is a correct solution:\n\n{target}\n\nWrite a correct solution, step by step.",
    "answer": "{problem}\n\nThis is the correct answer:\n\n{target}\n\nWrite a solution that leads to it, step by "
    "step.",
    "beginning": "{problem}\n\nThis is the beginning of a correct solution:\n\n{target}\n\nWork out what it has done "
    "so far, and continue it to the end, step by step.",
}
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


def teacher_of(config: "DictConfig") -> Any:
    """Return the section ``method.teacher``; None without a teacher."""
    return config.method.get("teacher")


def has_server(config: "DictConfig") -> bool:
    """Return whether the run starts vLLM for its teacher."""
    teacher = teacher_of(config)
    return teacher is not None and teacher.model not in (None, SELF) and endpoint_of(teacher.model) is None


def top_tokens(config: "DictConfig") -> int:
    """Return how many of its likeliest tokens the teacher scores; 0: the sampled token alone."""
    divergence = config.method.get("divergence")
    return 0 if divergence is None else divergence.k


def teacher_gpus(config: "DictConfig") -> int:
    """Return the number of the teacher's GPUs on each node."""
    return config.method.teacher.gpus if has_server(config) else 0


def lengthen_context(config: "DictConfig") -> None:
    """Raise the context of vLLM by the target, where a prompt can hold it, and the scores that it gives of a token."""
    from omegaconf import OmegaConf

    teacher, rollout = teacher_of(config), config.actor_rollout_ref.rollout
    scores = teacher is not None and teacher.sees != "nothing" and teacher.model == SELF
    if scores or shown_share(config):
        share = float(teacher.sees != "answer") if teacher is not None and scores else shown_share(config)
        rollout.max_model_len += shown_tokens(config, share) + 1  # vLLM generates a token with each score
        rollout.max_num_batched_tokens = max(rollout.max_num_batched_tokens, rollout.max_model_len)
    if top := top_tokens(config):  # vLLM's own limit is 20; the server of a teacher has the same
        OmegaConf.update(rollout, "engine_kwargs.vllm.max_logprobs", top, force_add=True)
    if teacher is not None:
        if teacher.model is not None:
            endpoint_of(teacher.model)  # raises what is wrong with its address
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
    server.gpu_memory_utilization = config.method.teacher.gpu_memory_utilization
    OmegaConf.update(server, "enable_sleep_mode", False, force_add=True)  # it has its GPUs for itself
    server.free_cache_engine = False
    server.load_format, server.temperature = "auto", 1.0
    server.prompt_length = longest_scored(config)
    server.response_length = config.data.max_response_length
    server.max_model_len = server.prompt_length + server.response_length + 1
    server.max_num_batched_tokens = max(server.max_num_batched_tokens, server.max_model_len)


def longest_scored(config: "DictConfig") -> int:
    """Return the token limit of a teacher's prompt, with the target or its beginning if the prompt shows it."""
    sees = config.method.teacher.sees
    shares = [] if sees == "nothing" else [float(sees != "answer")]
    shares += [share] if (share := shown_share(config)) else []
    return config.data.max_prompt_length + max((shown_tokens(config, share) for share in shares), default=0)


def shown_share(config: "DictConfig") -> float:
    """Return the largest share of a target that a prompt shows; 0 where none does."""
    from training.config.method_keys import of_run  # here: the orchestration, which has no jaxtyping, imports the rest
    from training.methods.guided import Guided

    method = of_run(config)
    return method.prefix.max if isinstance(method, Guided) and method.shown else 0.0


def shown_tokens(config: "DictConfig", share: float = 1.0) -> int:
    """Return the most tokens that a ``share`` of a target adds to the prompt that shows it."""
    return math.ceil(share * config.data.max_response_length) + WORDING


def show_target(conversation: Messages, target: str, part: str) -> list[dict[str, Any]]:
    """Return ``conversation`` with ``target`` below the problem, and what to do with it; without a target as it is.

    >>> show_target([{"role": "user", "content": "1+1=?"}], "1+1", "beginning")[0]["content"].splitlines()[:5]
    ['1+1=?', '', 'This is the beginning of a correct solution:', '', '1+1']
    """
    if not target:
        return list(conversation)
    problem = conversation[-1]["content"]
    text = WORDS[part].replace("{target}", target, 1).replace("{problem}", problem, 1)
    return [*conversation[:-1], {**conversation[-1], "content": text}]
