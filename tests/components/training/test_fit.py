"""Whether a run fits: what is decided for it, what is said, and what is refused."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from model_zoo import MODELS, sizes
from omegaconf import DictConfig, OmegaConf
from test_memory_plan import QWEN_7B

from core.errors import InputError
from core.model.base_model import SHIPPED
from evaluation.generation.engine import EngineOptions, llm_options
from training.config.to_verl import compose_run
from training.config.verl_keys import leaf_values
from training.diagnosis.machine import MACHINE_GPU, Examination, checks_of, run_checks
from training.resources.attention import choose_attention
from training.resources.auto_values import resolve_auto
from training.resources.layout import Layout
from training.resources.machine import CARDS, Gpu, Machine, card_of, visible_gpus
from training.resources.memory import Estimate, estimates
from training.resources.model_shape import ModelShape
from training.resources.requirements import check_requirements, require_disk

SHAPE_7B = ModelShape.of_config(QWEN_7B)
TWO_GPUS = EngineOptions(SHIPPED, 64, 64, 0.6, 1.0, False, tensor_parallel=2)
ONE_GPU_ENGINES = ["actor_rollout_ref.rollout.tensor_model_parallel_size=1"]
FLASH = {"flash_attention_4", "sdpa", "flex_attention", "eager"}


def machine(kind: str, count: int, **changes: Any) -> Machine:
    card = card_of(kind)
    assert card is not None
    gpus = (Gpu(f"NVIDIA {kind}", card.memory, card.capability),) * count
    values: dict[str, Any] = {"nodes": 1, "cpus": 16 * count, "memory": 256e9 * count, "shared_memory": 64e9}
    return Machine(gpus=gpus, **{**values, "disk": 2e12, **changes})


def planned(
    there: Machine,
    shape: ModelShape = SHAPE_7B,
    overrides: Sequence[str] = (),
    hardware: str = "gpu",
    recipe: str = "luffy",
) -> tuple[DictConfig, dict[str, Estimate]]:
    config = compose_run(recipe, hardware, list(overrides), run=Path("run"))
    resolve_auto(config, there, shape, FLASH)
    check_requirements(config, there, shape)
    return config, {one.name: one for one in estimates(Layout(config), there, shape, cuda=True)}


def test_a_7b_model_on_eight_h100_needs_no_offload() -> None:
    config, taken = planned(machine("H100", 8))
    assert (config.trainer.n_gpus_per_node, config.offload, config.attention) == (8, "none", "flash_attention_4")
    assert config.actor_rollout_ref.model.override_config.attn_implementation == "flash_attention_4"
    assert not config.actor_rollout_ref.actor.fsdp_config.param_offload
    assert "OMP_NUM_THREADS" not in config.environment
    training = str(taken["each GPU while it trains"])
    assert "about 41.6 GB of 81.2 GB (state 15.2 GB, gathered 5.3 GB, reduced 5.3 GB, activations 8.7 GB, " in training
    assert "logits 1.6 GB, vLLM asleep 5.5 GB)" in training
    assert all(estimate.fits for estimate in taken.values())


def test_the_gpu_profiles_build_nothing_at_start_and_call_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.generation.engine.computes_on_cpu", lambda: False)
    for hardware in ("gpu", "gpu_single", "gpu_multinode"):
        config = compose_run("luffy", hardware, [], run=Path("run"))
        rollout, actor, ref = (config.actor_rollout_ref[name] for name in ("rollout", "actor", "ref"))
        compilation = rollout.engine_kwargs.vllm.compilation_config
        assert compilation == {"pass_config": llm_options(TWO_GPUS)["compilation_config"]["pass_config"]}
        assert (rollout.cudagraph_capture_sizes[-1], len(rollout.cudagraph_capture_sizes)) == (256, 11)
        assert rollout.checkpoint_engine.update_weights_bucket_megabytes * 2**20 > 4 * 152_064 * 3_584  # an embedding
        assert not any(role.fsdp_config.use_no_sync_for_gradient_accumulation for role in (actor, ref))
        assert {config.environment[name] for name in ("VLLM_NO_USAGE_STATS", "DO_NOT_TRACK", "HF_HUB_OFFLINE")} == {"1"}
    config, _ = planned(machine("H200", 1, cpus=16), hardware="gpu_single")
    assert config.actor_rollout_ref.rollout.agent.num_workers == 4


def test_one_gpu_keeps_the_state_of_a_7b_model_in_the_memory_of_the_node() -> None:
    config, _ = planned(machine("H200", 1), hardware="gpu_single")
    assert config.actor_rollout_ref.actor.fsdp_config.offload_policy
    assert config.environment.OMP_NUM_THREADS == 16  # the processors compute the update


SHAPE_32B = ModelShape.of_config(QWEN_7B | sizes(5120, 27648, 64, 40, 8, 152064))
SHAPES = {
    "1.5B": ModelShape.of_config(MODELS["Qwen2.5-Math-1.5B"]),
    "7B": SHAPE_7B,
    "14B": ModelShape.of_config(QWEN_7B | sizes(5120, 13824, 48, 40, 8, 152064)),
    "32B": SHAPE_32B,
    "72B": ModelShape.of_config(QWEN_7B | sizes(8192, 29568, 80, 64, 8, 152064)),
}
DOCS = Path(__file__).parents[3] / "docs"
PAGE, RESULTS = ((DOCS / page).read_text() for page in ("gpu.md", "results/gpu.md"))
LAYOUTS = re.findall(r"^\| (\d+B) \| (\d) \| (H\d00) \| `(\w+)` \| (\d+) \| (\d) \|$", RESULTS, re.M)
FITS = re.findall(r"^\| ([\d.]+B), (all parameters|LoRA).*? \| (.*) \| (.*) \| (.*) \|$", PAGE, re.M)


@pytest.mark.parametrize(
    ("model", "nodes", "kind", "offload", "shards", "parallel"),
    [*LAYOUTS, ("7B", "2", "H100", "none", "8", "1"), ("14B", "4", "L40S", "always", "32", "2")],
)
def test_a_model_gets_the_layout_of_the_page(
    model: str, nodes: str, kind: str, offload: str, shards: str, parallel: str
) -> None:
    there = machine(kind, 8, nodes=int(nodes), disk=2e13)
    hardware = "gpu" if nodes == "1" else "gpu_multinode"
    config, _ = planned(there, SHAPES[model], [f"trainer.nnodes={nodes}"], hardware)
    fsdp = [config.actor_rollout_ref[name].fsdp_config.fsdp_size for name in ("actor", "ref")]
    assert (config.offload, Layout(config).shards) == (offload, int(shards)) and fsdp[0] == fsdp[1]
    assert config.actor_rollout_ref.rollout.tensor_model_parallel_size == int(parallel)


def test_the_page_says_what_fits() -> None:
    assert (len(LAYOUTS), len(FITS)) == (6, 3)
    for model, trained, *cells in FITS:
        check_cells(model, trained, cells)


def check_cells(model: str, trained: str, cells: list[str]) -> None:
    overrides = ["actor_rollout_ref.model.lora_rank=64"] if trained == "LoRA" else []
    for (kind, count), cell in zip((("H100", 8), ("H200", 1), ("H100", 1)), cells, strict=True):
        config, taken = planned(machine(kind, count), SHAPES[model], overrides, "gpu" if count > 1 else "gpu_single")
        named = re.search(r"offload=(\w+)", cell)
        assert config.offload == named[1] if named else config.offload in ("none", "rollout"), (kind, cell)
        assert taken["each GPU while it trains"].fits


@pytest.mark.parametrize(
    ("there", "overrides", "message"),
    [
        (machine("H100", 2), ["trainer.n_gpus_per_node=4"], r"GPUs per node: needs 4 of 2.*trainer\.n_gpus_per_node"),
        (machine("H100", 8, disk=100e9), [], r"disk of the run's folder: needs 289.*run\.keep_checkpoints"),
        (machine("H100", 8, shared_memory=64e6), [], r"/dev/shm: needs.*--shm-size"),
        (machine("H100", 8, cpus=8), [], r"CPUs that verl and Ray reserve: needs 27 of 8.*num_cpus"),
        (
            machine("H100", 8),
            ["actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096"],
            r"tokens of a micro-batch on each GPU: needs 9,216 of 4,096",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_key_to_change(
    there: Machine, overrides: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        planned(there, overrides=overrides)


@pytest.mark.parametrize(
    ("there", "overrides", "name", "remedy"),
    [
        (machine("H200", 1), ["machine.offload=none"], "each GPU while it trains", "machine.offload=always"),
        (machine("L4", 8), ["machine.offload=none"], "each GPU while it trains", "ppo_max_token_len_per_gpu"),
        (machine("L4", 8), ONE_GPU_ENGINES, "vLLM's share of each GPU", "a higher actor_rollout_ref.rollout.gpu_"),
        (
            machine("H100", 8),
            ["machine.offload=none", "actor_rollout_ref.rollout.gpu_memory_utilization=0.9"],
            "each GPU while vLLM generates",
            "a lower actor_rollout_ref.rollout.gpu_memory_utilization",
        ),
        (machine("H200", 1, memory=100e9), ["machine.offload=always"], "memory of each node", "a smaller model"),
    ],
)
def test_too_much_memory_is_known_with_the_key_to_change(
    there: Machine, overrides: list[str], name: str, remedy: str
) -> None:
    estimate = planned(there, overrides=overrides)[1][name]
    assert not estimate.fits and remedy in estimate.remedy


def test_gpus_that_share_sequences_share_a_sample_and_each_has_its_own_tokens_of_a_micro_batch() -> None:
    share = "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2"
    chosen = ["machine.offload=none", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=5000"]
    config, shared = planned(machine("H100", 8), overrides=[*chosen, share])
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu == 5000  # of 9,216 / 2
    alone = compose_run("luffy", "gpu", chosen, run=Path("run"))
    resolve_auto(alone, machine("H100", 8), SHAPE_7B, FLASH)
    (training, *_) = estimates(Layout(alone), machine("H100", 8), SHAPE_7B, cuda=True)
    assert training.parts == shared[training.name].parts
    with pytest.raises(InputError, match="tokens of a micro-batch on each GPU: needs 4,608 of 4,000"):
        planned(machine("H100", 8), overrides=["machine.offload=none", share, chosen[1].replace("5000", "4000")])


def test_auto_without_a_card_and_for_one_of_which_nothing_is_known_says_what_to_set() -> None:
    with pytest.raises(InputError, match="no GPU is here"):
        planned(Machine(1, (), 8, 64e9, 1e9, 1e12))
    there = Machine(1, (Gpu("GPU", None),) * 8, 128, 2e12, None, 2e12)
    with pytest.raises(InputError, match=r"machine\.attention, machine\.offload=auto: nothing is known"):
        planned(there)
    planned(there, overrides=[*ONE_GPU_ENGINES, "machine.attention=sdpa", "machine.offload=none"])


@pytest.mark.parametrize(
    ("asked", "kinds", "installed", "options", "kernel"),
    [
        ("auto", ["H100"], FLASH | {"flash_attention_2"}, {}, "flash_attention_4"),
        ("auto", ["A100"], FLASH | {"flash_attention_2"}, {}, "flash_attention_2"),
        ("auto", ["B200"], FLASH, {}, "flash_attention_4"),
        ("auto", ["A100"], FLASH, {}, "sdpa"),
        ("auto", ["H100", "A100"], FLASH, {}, "sdpa"),
        ("auto", ["H100"], {"sdpa", "eager"}, {}, "sdpa"),
        ("auto", [], FLASH, {}, "sdpa"),
        ("auto", [], {"sdpa", "sdpa_packed"}, {"packed": True}, "sdpa_packed"),
        *((asked, ["A100"], FLASH, {"sequence_parallel": 2}, "install flash-attn") for asked in ("auto", "sdpa")),
        ("flash_attention_2", ["A100"], FLASH, {}, "flash-attn is not installed"),
        ("sdpa_packed", ["A100"], FLASH, {"packed": True}, "for packed sequences on a CPU"),
        ("sdpa_packed", [], FLASH, {}, "for packed sequences on a CPU"),
    ],
)
def test_the_kernel_follows_from_the_card_and_the_packages(
    asked: str, kinds: list[str], installed: set[str], options: dict[str, Any], kernel: str
) -> None:
    gpus = [machine(kind, 1).gpus[0] for kind in kinds]
    given = {"gpus": gpus, "head_dim": 128, "sequence_parallel": 1, "installed": installed} | options
    if " " not in kernel:
        assert choose_attention(asked, **given) == kernel
        return
    with pytest.raises(InputError, match=kernel):
        choose_attention(asked, **given)


@pytest.mark.parametrize("hardware", ["gpu", "gpu_single", "gpu_multinode"])
@pytest.mark.parametrize("recipe", ["luffy", "sft"])
def test_no_key_stays_auto(recipe: str, hardware: str) -> None:
    config, _ = planned(machine("H200", 8, nodes=2), hardware=hardware, recipe=recipe)

    left = {key.rpartition(".")[2] for key, value in leaf_values(OmegaConf.to_container(config)) if value == "auto"}
    # Two of verl, which reads the word, and the GPUs of rollouts that share the actor's.
    assert left == {"resume_mode", "load_format", "rollout_gpus"}
    size = {"gpu": -1, "gpu_single": -1, "gpu_multinode": 8}[hardware]
    assert config.actor_rollout_ref.actor.fsdp_config.fsdp_size == size
    assert config.trainer.n_gpus_per_node == (1 if hardware == "gpu_single" else 8)


def test_a_machine_without_a_gpu_fails_by_name(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    checks = [check for check in checks_of(MACHINE_GPU) if check.name == "driver"]
    assert run_checks(checks, Examination("gpu_single", tmp_path)) == ["driver"]
    assert capsys.readouterr().out.startswith(
        "FAIL  driver: no GPU (nvidia-smi, CUDA_VISIBLE_DEVICES): install a driver"
    )


def test_every_card_is_known_by_the_name_that_its_driver_gives() -> None:
    names = ("NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", "NVIDIA L40S")
    assert [card_of(name).name for name in names] == ["H100", "H200", "A100", "A100-SXM4-40GB", "L40S"]  # type: ignore[union-attr]
    assert card_of("Tesla V100") is None
    assert all(card.memory > 1e10 for card in CARDS)


NVIDIA_SMI = """#!/bin/sh
echo "NVIDIA H100 80GB HBM3, 81559, 9.0, 580.65.06, GPU-aa11"
echo "NVIDIA H100 80GB HBM3, 81559, 9.0, 580.65.06, GPU-bb22"
"""


def test_the_gpus_are_those_that_the_driver_lists_and_we_may_see(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    path = {"PATH": str(tmp_path)}
    assert visible_gpus({"PATH": "/nowhere"}) == ()
    both = visible_gpus(path)
    assert [gpu.capability for gpu in both] == [(9, 0), (9, 0)]
    assert both[0].memory == pytest.approx(85.5e9, rel=1e-3)
    for chosen, count in (("0", 1), ("GPU-bb", 1), ("1,0", 2), ("", 0)):
        assert len(visible_gpus({**path, "CUDA_VISIBLE_DEVICES": chosen})) == count
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES=7: this machine has 2 GPUs"):
        visible_gpus({**path, "CUDA_VISIBLE_DEVICES": "7"})
    tool.write_text(NVIDIA_SMI.replace("580.65.06", "535.183.01"))
    with pytest.raises(InputError, match=r"the NVIDIA driver is 535.183.01, and CUDA 13.0 .* needs 580 or newer"):
        visible_gpus(path)
    (tmp_path / "libcuda.so.580.65.06").touch()  # of the forward-compatibility package
    assert len(visible_gpus({**path, "LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"})) == 2
    tool.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2; exit 9\n")
    with pytest.raises(InputError, match="NVIDIA-SMI has failed"):
        visible_gpus(path)


def test_a_full_disk_is_said_before_a_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose_run("luffy", "cpu", [], run=tmp_path)
    config.actor_rollout_ref.model.path = str(SHIPPED)
    require_disk(config)
    monkeypatch.setattr("training.resources.requirements.free_disk", lambda folder: 1e6)
    with pytest.raises(InputError, match="make room and run the command again"):
        require_disk(config)
