"""Turn a checkpoint of verl into a Hugging Face folder: ``python -m training.export.merge ACTOR FOLDER DTYPE``.

`training.job.checkpoints` starts it. verl's ranks each save their part of the parameters, in float32. Here they are
joined on one processor, during or after the training: no GPU waits for it, and a checkpoint has no second copy of the
model. LoRA's adapters are added to the matrices that they adapt, and also written by themselves, as a folder that peft
and vLLM load.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from core.cli import exit_status
from core.errors import InputError
from core.files import read_json, write_json
from core.model.model_folder import check_model, model_files

SHARD_SIZE = "5GB"
BASE, DOWN, UP = ".base_layer.", ".lora_A.default.weight", ".lora_B.default.weight"
Parameters = dict[str, torch.Tensor]
PEFT = "base_model.model."
LORA = "lora_train_meta.json"
ADAPTER = "adapter"  # the folder below the model


def merge(actor: Path, out: Path, dtype: str) -> None:
    """Write the model of the checkpoint folder ``actor`` to the folder ``out``, which must exist.

    Raises:
        InputError: a part of the checkpoint is missing, or its tensors do not belong to the model.
    """
    source = actor / "huggingface"
    if not (source / "config.json").is_file():
        raise InputError(f"{source}: no config.json there: expected a checkpoint of verl")
    config: dict[str, Any] = read_json(source / "config.json")
    ranks = _ranks(actor)
    lora = read_json(actor / LORA) if (actor / LORA).is_file() else {"lora_alpha": 0, "r": 1}
    weights = dict(_whole(ranks, lora["lora_alpha"] / lora["r"], getattr(torch, dtype)))
    if config.get("tie_word_embeddings"):
        weights.pop("lm_head.weight", None)
    for file in model_files(source):
        if file.suffix != ".safetensors" and not file.name.endswith(".index.json"):
            (out / file.name).write_bytes(file.read_bytes())
    write_json({**config, "dtype": dtype}, out / "config.json")
    save_torch_state_dict(weights, out, max_shard_size=SHARD_SIZE, metadata={"format": "pt"})
    check_model(out, "sample")
    if adapters := {name: rank for name, rank in ranks[0].items() if DOWN in name or UP in name}:
        joined = {name.replace(".default", ""): _join([rank[name] for rank in ranks]) for name in adapters}
        write_adapter(joined, lora, out / ADAPTER)


def write_adapter(tensors: Parameters, lora: dict[str, Any], out: Path) -> None:
    """Write LoRA's matrices, by peft's names, as an adapter of the base model, in float32."""
    out.mkdir()
    adapted = {name.rsplit(".lora_", 1)[0].rsplit(".", 1)[1] for name in tensors}
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": lora["r"], "lora_alpha": lora["lora_alpha"]}
    settings |= {"lora_dropout": 0.0, "bias": "none", "inference_mode": True, "base_model_name_or_path": None}
    write_json({**settings, "target_modules": sorted(adapted)}, out / "adapter_config.json")
    plain = {name: tensor.float().contiguous() for name, tensor in tensors.items()}
    save_file(plain, out / "adapter_model.safetensors", metadata={"format": "pt"})


def _whole(
    ranks: list[dict[str, torch.Tensor]], scale: float, dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) of every parameter, joined from the ranks and merged with its adapters by ``scale``."""
    for name in list(ranks[0]):
        if DOWN in name or UP in name:
            continue
        tensor = _join([rank[name] for rank in ranks])
        if name.endswith(f"{BASE}weight"):
            module = name.removesuffix(f"{BASE}weight")
            down, up = (_join([rank[module + part] for rank in ranks]).float() for part in (DOWN, UP))
            tensor = tensor.float() + scale * (up @ down)
        yield name.removeprefix(PEFT).replace(BASE, "."), tensor.to(dtype).contiguous()


def _ranks(actor: Path) -> list[Parameters]:
    """Return the parameters of each rank of one copy of the model, mapped from their files."""
    world = read_json(actor / "fsdp_config.json")["world_size"]
    files = [actor / f"model_world_size_{world}_rank_{rank}.pt" for rank in range(world)]
    if missing := [file.name for file in files if not file.is_file()]:
        raise InputError(f"{actor}: no {', '.join(missing)}: copy the parts of all nodes there")
    first = _load(files[0])
    sharded = next((tensor for tensor in first.values() if isinstance(tensor, DTensor)), None)
    copy = 1 if sharded is None else sharded.device_mesh.mesh.shape[-1]
    return [first, *(_load(file) for file in files[1:copy])]


def _load(file: Path) -> Parameters:
    return torch.load(file, map_location="cpu", mmap=True, weights_only=True)


def _join(parts: list[torch.Tensor]) -> torch.Tensor:
    """Join the parts of a tensor from each rank of a copy; a tensor that is no DTensor is whole on each rank."""
    first = parts[0]
    if not isinstance(first, DTensor):
        return first
    placement = first.placements[-1]
    local = [part._local_tensor for part in parts]
    whole = torch.cat(local, dim=placement.dim) if placement.is_shard() else local[0]
    assert whole.shape == first.shape, f"parts of {first.shape} join to {whole.shape}"
    return whole


if __name__ == "__main__":
    sys.exit(exit_status(lambda: merge(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
