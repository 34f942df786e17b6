"""One of the ranks of test_training_layouts: verl's FSDP2 engine on gloo, the same batch in every layout.

``python engine_ranks.py FOLDER MODULES [NAME...]``: rank 0 prints one JSON line per layout; MODULES are those that verl
imports, and each NAME is a folder in FOLDER with a model of the zoo, which goes through `ZOO_LAYOUTS`; without one, the
embedded model goes through `LAYOUTS`. Also on a CUDA build of torch, without a GPU.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

if __name__ == "__main__":  # the test imports the layouts alone
    torch.version.cuda = None  # `training.platforms.quirks` takes a CUDA build for one with GPUs
    torch.set_num_threads(1)
    os.environ["VERL_USE_EXTERNAL_MODULES"] = sys.argv[2]

import torch.distributed as dist
import verl  # noqa: F401
from sequence_loop import import_loop
from tensordict import TensorDict
from transformers import modeling_flash_attention_utils as flash_attention
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.dataset_utils import DatasetPadMode
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine import EngineRegistry

from core.model.base_model import SHIPPED
from training.algorithms.aggregate import Reduce
from training.algorithms.regularize import ConstantEntropy
from training.methods.luffy import Luffy
from training.verl_hooks.loss import step_loss
from training.verl_hooks.metrics import update_counts

LENGTHS = (17, 29, 11, 40, 23, 35, 8, 31)
PROMPT = 4
FLASH = "flash_attention_2"
LAYOUTS: dict[str, dict[str, Any]] = {
    "padded": {"use_remove_padding": False},
    "packed": {},
    "packed one by one": {"attention": "sdpa_packed"},
    "eager": {"attention": "eager", "use_remove_padding": False},
    "flash": {"attention": FLASH},
    "sequence parallel": {"sequence_parallel": 2, "attention": FLASH},
    "sequence parallel sdpa": {"sequence_parallel": 2},
    # From here on all are fused: verl changes the class of the model for it.
    "fused": {"use_fused_kernels": True},
    "offload rollout": {"use_fused_kernels": True, "offload": "rollout"},
    "offload always": {"use_fused_kernels": True, "offload": "always"},
    "checkpointing": {"use_fused_kernels": True, "enable_gradient_checkpointing": True},
    "bf16": {"use_fused_kernels": True, "dtype": "bf16"},
    "lora": {"use_fused_kernels": True, "lora_rank": 8},
    "replicated": {"use_fused_kernels": True, "fsdp_size": 1},
    "no sync": {"use_fused_kernels": True, "no_sync": True},
}

flash_attention.lazy_import_flash_attention = import_loop
# What a profile for GPUs may choose; the first is the reference.
ZOO_LAYOUTS: dict[str, dict[str, Any]] = {
    "padded": {"attention": "eager", "use_remove_padding": False},
    "packed": {},
    "flash": {"attention": FLASH},
    "sequence parallel": {"sequence_parallel": 2, "attention": FLASH},
    "fused": {"use_fused_kernels": True},
    "fused flash": {"use_fused_kernels": True, "attention": FLASH},
    "fused sequence parallel": {"use_fused_kernels": True, "sequence_parallel": 2, "attention": FLASH},
    "replicated": {"use_fused_kernels": True, "fsdp_size": 1},
    "offload rollout": {"use_fused_kernels": True, "offload": "rollout"},
    "offload always": {"use_fused_kernels": True, "offload": "always"},
    "checkpointing": {"use_fused_kernels": True, "enable_gradient_checkpointing": True},
    "bf16": {"use_fused_kernels": True, "dtype": "bf16"},
    "lora": {"use_fused_kernels": True, "lora_rank": 8},
}
# The policy loss of the recipe luffy; every other sequence is an off-policy one.
METHOD = Luffy(entropy=ConstantEntropy(coef=0.1), reduce=Reduce(type="token-mean"))


def build(
    folder: Path,
    *,
    model: str = "",
    fsdp_size: int = -1,
    no_sync: bool = False,
    attention: str = "sdpa",
    offload: str = "none",
    sequence_parallel: int = 1,
    dtype: str = "fp32",
    use_remove_padding: bool = True,
    **more: Any,
) -> Any:
    """The engine of a layout; ``model`` is a folder in ``folder``."""
    options = {"fused_kernel_options": {"impl_backend": "torch"}, "enable_gradient_checkpointing": False, **more}
    engine = EngineRegistry.new(
        model_type="language_model",
        backend="fsdp2",
        model_config=HFModelConfig(
            path=str(folder / model if model else SHIPPED),
            use_remove_padding=use_remove_padding,
            override_config={"attn_implementation": "sdpa" if attention == FLASH else attention},
            **options,
        ),
        engine_config=FSDPEngineConfig(
            strategy="fsdp2",
            dtype="float32",
            fsdp_size=fsdp_size,
            use_no_sync_for_gradient_accumulation=no_sync,
            mixed_precision={"param_dtype": dtype, "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
            use_torch_compile=False,
            ulysses_sequence_parallel_size=sequence_parallel,
            param_offload=offload == "rollout",
            optimizer_offload=offload == "rollout",
            offload_policy=offload == "always",
        ),
        optimizer_config=FSDPOptimizerConfig(
            lr=1e-3, total_training_steps=10, lr_scheduler_type="constant", lr_warmup_steps=0
        ),
        checkpoint_config=CheckpointConfig(save_contents=["model", "optimizer", "extra"]),
    )
    engine.initialize()
    if attention == FLASH:  # whose package is not here
        engine.module.config._attn_implementation = FLASH
    return engine


def batch(rank: int, ranks: int, *, packed: bool, fused: bool) -> TensorDict:
    """This rank's share of eight sequences of random tokens, in micro-batches of 64."""
    draw = torch.Generator().manual_seed(1)
    sequences = [torch.randint(5, 250, (length,), generator=draw) for length in LENGTHS]
    mine = sequences[rank::ranks]

    def nest(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    def of_responses(values: torch.Tensor) -> torch.Tensor:
        """A value per row, or per token of the longest sequence, for each token of the responses."""
        return nest([value.expand(max(LENGTHS))[: len(row) - PROMPT] for value, row in zip(values, mine, strict=True)])

    positions = [torch.arange(len(row)) for row in mine]
    numbers = torch.arange(len(LENGTHS))
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None] - PROMPT
    off_policy = (numbers % 2 == 0) * 64  # tokens that a row starts with, at most
    data = TensorDict(
        {
            "input_ids": nest(mine),
            "position_ids": nest(positions),
            "loss_mask": nest([(row >= PROMPT).long() for row in positions]),
            "prompts": nest([row[:PROMPT] for row in mine]),
            "responses": nest([row[PROMPT:] for row in mine]),
            "response_mask": of_responses(torch.ones(len(mine), 1)),
            "old_log_probs": of_responses(torch.full((len(mine), 1), -6.0)),
            "advantages": of_responses((1.0 + numbers[rank::ranks, None]) / len(LENGTHS)),
            "rollout_is_weights": of_responses(torch.ones(len(mine), 1)),
            "prefix_length": off_policy[rank::ranks],
        },
        batch_size=[len(mine)],
    )
    tu.assign_non_tensor(
        data,
        counts=update_counts(mask, {}, 1.0),
        coefficients=METHOD.coefficients(0),
        loss="policy",
        use_remove_padding=packed,
        use_dynamic_bsz=True,
        max_token_len_per_gpu=64,
        micro_batch_size_per_gpu=None,
        use_fused_kernels=fused,
        temperature=1.0,
        pad_mode=DatasetPadMode.NO_PADDING,
        pad_token_id=0,
        global_batch_size=len(LENGTHS),
        calculate_entropy=True,
    )
    return data


loss = partial(step_loss, METHOD.losses(), max(LENGTHS) - PROMPT)


def measure(folder: Path, name: str, options: dict[str, Any], rank: int, ranks: int) -> dict[str, float]:
    """Sums over all tokens before an update, its gradient norm, and the same sums after it."""
    torch.manual_seed(0)
    engine = build(folder, **options)
    parallel = options.get("sequence_parallel", 1)
    packed, fused = options.get("use_remove_padding", True), options.get("use_fused_kernels", False)
    share = rank // parallel, ranks // parallel
    result: dict[str, float] = {}
    for when in ("", " after"):
        with engine.eval_mode():
            output = engine.forward_backward_batch(batch(*share, packed=packed, fused=fused), None, forward_only=True)
        for key in ("log_probs", "entropy"):
            rows = output["model_output"][key].unbind()  # the last token of each is followed by another row, or none
            total = torch.stack([row[:-1].double().sum() for row in rows]).sum()
            dist.all_reduce(total)
            result[key + when] = total.item() / parallel
        if not when:
            with engine.train_mode():
                engine.forward_backward_batch(batch(*share, packed=packed, fused=fused), loss, forward_only=False)
                result["grad_norm"] = engine.optimizer_step()
    engine.save_checkpoint(str(folder / name), global_step=1)
    return result


def exchange(
    outputs: list[torch.Tensor], inputs: list[torch.Tensor], group: Any = None, async_op: bool = False
) -> None:
    """``all_to_all`` for gloo, which lacks it in the torch of the GPU lock; there NCCL has it."""
    everything = [torch.empty_like(torch.stack(inputs)) for _ in inputs]
    dist.all_gather(everything, torch.stack(inputs), group=group)
    for output, sent in zip(outputs, everything, strict=True):
        output.copy_(sent[dist.get_rank(group)])


def has_all_to_all(ranks: int) -> bool:
    """Whether the backend has it; every rank must ask."""
    parts = [torch.zeros(1) for _ in range(ranks)]
    try:
        dist.all_to_all([torch.zeros(1) for _ in parts], parts)
    except RuntimeError as error:
        if "does not support alltoall" not in str(error):
            raise
        return False
    return True


def main() -> None:
    folder, rank, ranks = Path(sys.argv[1]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    if not has_all_to_all(ranks):
        dist.all_to_all = exchange
    layouts = LAYOUTS
    if models := sys.argv[3:]:
        layouts = {f"{model} {name}": {**zoo, "model": model} for name, zoo in ZOO_LAYOUTS.items() for model in models}
    for name, options in layouts.items():
        result = measure(folder, name, options, rank, ranks)
        if rank == 0:
            sys.stdout.write(json.dumps({"layout": name, **result}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
