"""The teacher of a run: who it is, what it needs, and what is refused before anything starts."""

import asyncio
import json
import math
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
from omegaconf import open_dict
from teachers import Teacher
from test_fit import SHAPE_7B, SHAPE_32B, machine
from transformers import AutoTokenizer
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.workers.config import DistillationConfig

from core.errors import InputError
from core.files import read_json, write_json
from core.model.base_model import SHIPPED
from core.model.lineage_file import InputRecord
from core.model.model_folder import model_digest, model_files
from core.model.prompts import CHAT
from training.config.teacher_checks import check_teacher, check_tokens, served_folder, teacher_folder, vocabulary
from training.config.teacher_settings import (
    BASE,
    SELF,
    WORDING,
    WORDS,
    endpoint_of,
    lay_out_teacher,
    located,
    show_target,
)
from training.config.to_verl import compose_run
from training.job.request import TrainingRequest
from training.resources.auto_values import resolve_auto
from training.resources.layout import Layout
from training.resources.memory import Estimate, estimates
from training.resources.model_shape import ModelShape
from training.resources.requirements import check_requirements, logical_cpus
from training.verl_hooks.teacher import EndpointTeacher, Scores, _TeacherLoopWorker

RUN = Path("run")


def composed(*overrides: str, recipe: str = "opd", hardware: str = "cpu") -> Any:
    return compose_run(recipe, hardware, list(overrides), run=RUN)


def copy_of(folder: Path) -> Path:
    folder.mkdir()
    for file in model_files(SHIPPED):
        shutil.copy(file, folder)
    return folder


@pytest.mark.parametrize(("recipe", "hardware"), [("opd", "gpu"), ("luffy_opd", "gpu_multinode"), ("opsd", "cpu")])
def test_verl_accepts_a_teacher_on_every_hardware_profile(recipe: str, hardware: str) -> None:
    config = composed(f"method.teacher.model={BASE}", recipe=recipe, hardware=hardware)
    shape = ModelShape.of_folder(SHIPPED)
    resolve_auto(config, machine("H100", 8, nodes=2), shape, teacher=shape)
    folder = served_folder(config, SHIPPED)
    assert folder == SHIPPED
    lay_out_teacher(config, str(folder))
    with open_dict(config):
        config.actor_rollout_ref.model.path = str(SHIPPED)
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    teachers: DistillationConfig = omega_conf_to_dataclass(config.distillation)
    (teacher,) = teachers.teacher_models.values()
    gpus = 1 if hardware == "cpu" else 4  # four of eight share a batch of 1,024 samples evenly, and seven do not
    assert (teachers.enabled, teachers.n_gpus_per_node, teachers.nnodes) == (True, gpus, config.trainer.nnodes)
    assert config.trainer.n_gpus_per_node == gpus
    assert teacher.num_replicas == gpus * config.trainer.nnodes
    limit = 1024 + 8192 + (8192 + WORDING if recipe == "opsd" else 0) + 1
    assert teacher.inference.max_model_len == limit
    assert teacher.inference.dtype == ("float32" if hardware == "cpu" else "bfloat16")
    assert not teacher.inference.enable_sleep_mode and not teacher.inference.free_cache_engine
    assert config.ray_kwargs.ray_init.get("num_gpus") == (2 if hardware == "cpu" else None)
    assert Layout(config).reserved == 2 * gpus * config.trainer.nnodes
    assert logical_cpus(Layout(config), config) >= 3 * 2 * gpus


@pytest.mark.parametrize(
    ("overrides", "shown"),
    [
        (["actor_rollout_ref.rollout.max_model_len=1000"], 0),
        (["method.type=pope"], 0.5),
    ],
)
def test_a_teacher_has_the_context_that_was_checked(overrides: list[str], shown: float, tmp_path: Path) -> None:
    sizes = ["data.max_prompt_length=64", "data.max_response_length=144", *overrides]
    config = composed(f"method.teacher.model={BASE}", *sizes)
    lay_out_teacher(config, str(SHIPPED))
    needed = 64 + 144 + 1 + (math.ceil(shown * 144) + WORDING if shown else 0)
    server = config.distillation.teacher_models.teacher_model.inference
    assert server.max_model_len == needed
    short = copy_of(tmp_path / "short")
    write_json({**read_json(short / "config.json"), "max_position_embeddings": needed - 1}, short / "config.json")
    with pytest.raises(InputError, match=f"but a score needs {needed}"):
        check_teacher(composed(f"method.teacher.model={short}", *sizes), SHIPPED)


def test_a_folder_has_no_precedence_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (BASE, SELF, "mine"):
        (tmp_path / name).mkdir()
    for name, kept in ((BASE, BASE), (SELF, SELF), ("mine", str(tmp_path / "mine"))):
        assert composed(f"method.teacher.model={name}", recipe="opsd").method.teacher.model == kept
        assert located(name, tmp_path) == kept


def test_a_policy_that_is_its_own_teacher_needs_no_server() -> None:
    config = composed(f"method.teacher.model={SELF}", recipe="opsd", hardware="gpu")
    shape = ModelShape.of_folder(SHIPPED)
    resolve_auto(config, machine("H100", 8), shape)
    assert served_folder(config, SHIPPED) is None
    assert (config.trainer.n_gpus_per_node, config.distillation.enabled) == (8, False)
    # It reads the prompt with the target and the sample, and writes a token.
    assert config.actor_rollout_ref.rollout.max_model_len == 1024 + 2 * 8192 + WORDING + 1


def planned(teacher: ModelShape, *overrides: str) -> dict[str, Estimate]:
    config = composed("method.teacher.model=teacher", *overrides, hardware="gpu")
    there = machine("H100", 8)
    resolve_auto(config, there, SHAPE_7B, {"sdpa"}, teacher=teacher)
    check_requirements(config, there, SHAPE_7B)
    return {one.name: one for one in estimates(Layout(config), there, SHAPE_7B, cuda=True, teacher=teacher)}


SERVER, GPU = "vLLM's share of each GPU of the teacher", "each GPU of the teacher"


def test_the_estimate_has_the_memory_of_the_teacher() -> None:
    share = str(planned(SHAPE_7B)[SERVER])
    assert "17.8 GB of 51.3 GB (weights 15.2 GB, one sample of full length 0.5 GB, graphs 2.0 GB)" in share
    assert "(vLLM 51.3 GB, logits 14.0 GB, contexts 1.5 GB)" in str(planned(SHAPE_7B)[GPU])
    assert "weights 16." in str(planned(SHAPE_32B)[SERVER])  # over four GPUs
    assert all(estimate.fits for estimate in planned(SHAPE_7B).values())
    assert not planned(SHAPE_7B, "method.teacher.gpus=1", "method.teacher.gpu_memory_utilization=0.2")[SERVER].fits
    assert not planned(SHAPE_7B, "method.teacher.gpu_memory_utilization=0.9")[GPU].fits


def test_a_teacher_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"method\.teacher\.gpus=8 leaves none of the 8 GPUs"):
        planned(SHAPE_7B, "method.teacher.gpus=8")
    with pytest.raises(InputError, match=r"GPUs per node: needs 9 of 8.*teacher\.gpus, or CUDA_VISIBLE_DEVICES"):
        planned(SHAPE_7B, "trainer.n_gpus_per_node=8")


def test_a_teacher_is_named_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"teacher.model=null: the method needs a teacher"):
        check_teacher(composed(), SHIPPED)
    with pytest.raises(InputError, match="expected a model folder, a hub id"):
        check_teacher(composed("method.teacher.model=nothing"), SHIPPED)
    short = copy_of(tmp_path / "short")
    with pytest.raises(InputError, match=r"a context of 1024 tokens .*, but a score needs 9217"):
        check_teacher(composed(f"method.teacher.model={short}"), SHIPPED)
    limits = ["data.max_prompt_length=64", "data.max_response_length=144"]
    check_teacher(composed(f"method.teacher.model={short}", *limits), SHIPPED)
    with pytest.raises(InputError, match=rf"k=4096: .* has only {len(vocabulary(SHIPPED))} tokens"):
        check_teacher(composed(f"method.teacher.model={BASE}", "method.divergence.k=4096", *limits), SHIPPED)
    assert teacher_folder(str(short)) == short


def test_a_divergence_needs_logits_and_more_scores() -> None:
    chosen = [f"method.teacher.model={BASE}", "method.divergence={k: 32}"]
    fused, padded = "actor_rollout_ref.model.use_fused_kernels", "actor_rollout_ref.actor.pad_to_length"
    for overrides, words in (([], fused), ([f"{fused}=false", f"{padded}=true"], "fsdp_config.pad_to_length")):
        with pytest.raises(InputError, match=rf"method\.divergence=set contradicts \S*{words}=True"):
            composed(*chosen, *overrides, hardware="gpu")
    plain, compared = (planned(SHAPE_7B, f"{fused}=false", *more) for more in ([], chosen[1:]))
    name = "each GPU while it trains"
    assert compared[name].parts["logits"] > 2 * plain[name].parts["logits"]
    config = composed(*chosen)
    resolve_auto(config, machine("H100", 2), SHAPE_7B, teacher=SHAPE_7B)
    assert config.actor_rollout_ref.model.use_fused_kernels is False  # auto
    lay_out_teacher(config, str(SHIPPED))
    assert config.distillation.teacher_models.teacher_model.inference.engine_kwargs.vllm.max_logprobs == 32


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    """Of the same size, but with two tokens exchanged; further tokens of the teacher do no harm."""
    other, more = copy_of(tmp_path / "other"), copy_of(tmp_path / "more")
    tokenizer = tokenizers.Tokenizer.from_file(str(more / "tokenizer.json"))
    tokenizer.add_tokens(["<tool>"])
    tokenizer.save(str(more / "tokenizer.json"))
    check_tokens(more, SHIPPED)
    content = read_json(other / "tokenizer.json")
    tokens = content["model"]["vocab"]
    first, second = list(tokens)[40:42]
    tokens[first], tokens[second] = tokens[second], tokens[first]
    write_json(content, other / "tokenizer.json")
    with pytest.raises(InputError, match=r"another tokenizer than .*: 2 of its 259 tokens"):
        check_tokens(other, SHIPPED)


def test_the_teacher_belongs_to_the_identity_of_a_training(tmp_path: Path) -> None:
    teacher = copy_of(tmp_path / "teacher")
    targets = tmp_path / "targets.parquet"
    pq.write_table(pa.table({"a": [1]}), targets)

    def identity(*overrides: str) -> tuple[str, dict[str, str]]:
        request = TrainingRequest(
            recipe="opd",
            overrides=overrides,
            targets=InputRecord(path=targets, digest=""),
            model=InputRecord(path=SHIPPED, digest=""),
            out=tmp_path / "run",
        ).complete()
        return request.identity(), dict(request.record().files)

    before, files = identity(f"method.teacher.model={teacher}")
    assert files == {"method.teacher.model": model_digest(teacher)}
    write_json({**read_json(teacher / "generation_config.json"), "changed": True}, teacher / "generation_config.json")
    after, files = identity(f"method.teacher.model={teacher}")
    assert after != before and files == {"method.teacher.model": model_digest(teacher)}
    assert identity(f"method.teacher.model={BASE}")[1] == {}


def test_the_words_around_a_target_have_fewer_bytes_than_are_allowed_for() -> None:
    for part in WORDS:
        (message,) = show_target([{"role": "user", "content": "p"}], "t", part)
        assert len(message["content"].encode()) - 2 <= WORDING
        assert message["content"].startswith("p\n") and "\nt\n" in message["content"]
    conversation = [{"role": "system", "content": "s"}, {"role": "user", "content": "{target}"}]
    shown = show_target(conversation, "{problem}", "target")  # braces of the content are content
    assert shown[0] == conversation[0]
    assert shown[1]["content"].startswith("{target}\n") and "\n{problem}\n" in shown[1]["content"]


@pytest.mark.parametrize(
    ("sees", "target", "shown"),
    [
        ("target", None, None),
        ("target", [], None),
        ("target", [{"role": "assistant", "content": "1+1=2"}], "1+1=2"),
        ("answer", [], "42"),
    ],
)
def test_the_prompt_of_a_teacher_shows_what_it_sees_of_a_row(sees: str, target: Any, shown: str | None) -> None:
    class Asked:
        async def scores(self, prompt: list[int], response: list[int], top: int) -> Scores:
            texts.append(tokenizer.decode(prompt))
            return [[token] for token in response], [[-1.0]] * len(response)

    texts, tokenizer = list[str](), AutoTokenizer.from_pretrained(SHIPPED)
    worker, output = (
        _TeacherLoopWorker.__new__(_TeacherLoopWorker),
        SimpleNamespace(prefix_length=0, response_mask=[1, 1]),
    )
    worker.sees, worker.template, worker.tokenizer, worker.teacher = sees, CHAT, tokenizer, Asked()
    worker.drawing, worker.drawn, worker.top = set(), asyncio.Event(), 0
    row = {"raw_prompt": [{"role": "user", "content": "1+1=?"}], "target": target}
    row["reward_model"] = {"ground_truth": "42"}
    asyncio.run(worker._compute_teacher_logprobs(output, tokenizer.encode("1+1=?"), [5, 6], False, row))
    assert output.teacher_log_probs == [-1.0, -1.0]
    assert shown in texts[0] if shown else texts == ["1+1=?"]


def test_a_teacher_sees_the_first_other_sample_that_is_right() -> None:
    class Asked:
        async def scores(self, prompt: list[int], response: list[int], top: int) -> Scores:
            texts.append(tokenizer.decode(prompt))
            return [[token] for token in response], [[-1.0]] * len(response)

    async def score(number: int, answer: str, solved: bool) -> list[float]:
        info = {"reward_extra_info": {"solved": solved}}
        response = tokenizer.encode(f"why</think>{answer}")
        mask = [1] * len(response)
        output = SimpleNamespace(prefix_length=0, response_mask=mask, extra_fields=info, reward_score=float(solved))
        row = {"uid": "u", "session_id": number, "raw_prompt": [{"role": "user", "content": "1+1=?"}]}
        worker.drawing.add(asyncio.current_task())
        await asyncio.sleep(0)
        await worker._compute_teacher_logprobs(output, tokenizer.encode("1+1=?"), response, False, row)
        return output.teacher_log_probs

    async def group(*right: bool) -> list[list[float]]:
        worker.drawn = asyncio.Event()
        return await asyncio.gather(*(score(number, f"x={number}", solved) for number, solved in enumerate(right)))

    texts, tokenizer = list[str](), AutoTokenizer.from_pretrained(SHIPPED)
    worker = _TeacherLoopWorker.__new__(_TeacherLoopWorker)
    worker.sees, worker.template, worker.tokenizer, worker.teacher = "sample", CHAT, tokenizer, Asked()
    worker.drawing, worker.groups, worker.readers, worker.top = set(), {}, Counter(), 0
    first, second, third = asyncio.run(group(False, True, False))
    assert set(first) == set(third) == {-1.0} and all(math.isnan(value) for value in second)
    assert ["x=1" in text and "why" not in text for text in texts] == [True, True]
    texts.clear()
    asyncio.run(group(True, True))
    assert sorted(("x=0" in text, "x=1" in text) for text in texts) == [(False, True), (True, False)]
    assert not worker.groups and not worker.readers


def scores(tokenizer: tokenizers.Tokenizer) -> Callable[[dict[str, Any]], tuple[int, Any]]:
    """What `vllm serve` answers with a model of ``tokenizer``."""

    def answer(request: dict[str, Any]) -> tuple[int, Any]:
        tokens, top = request["prompt"], request["prompt_logprobs"]
        if max(tokens) >= tokenizer.get_vocab_size():
            return 400, {"error": {"message": f"Token id {max(tokens)} is out of vocabulary"}}

        def score(token: int, log_prob: float, rank: int) -> dict[str, Any]:
            return {str(token): {"logprob": log_prob, "rank": rank, "decoded_token": tokenizer.decode([token], False)}}

        # The token of the prompt first; then the likeliest ones, from 1 here, of which it can be one.
        ranked = dict(item for rank in range(1, top + 1) for item in score(rank, -rank / 10, rank).items())
        rest = [score(token, -token / 1000, top + 1) | ranked for token in tokens[1:]]
        choice = {"index": 0, "text": "x", "finish_reason": "length", "prompt_logprobs": [None, *rest]}
        return 200, {"id": "x", "object": "text_completion", "created": 0, "model": "m", "choices": [choice]}

    return answer


def test_an_endpoint_is_asked_about_its_tokens(teacher: tuple[Teacher, str]) -> None:
    state, name = teacher
    tokenizer = tokenizers.Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))
    config = composed(f"method.teacher.model={name}")
    state.answer = scores(tokenizer)
    check_teacher(config, SHIPPED)
    endpoint = EndpointTeacher(*(endpoint_of(name) or ()))
    assert asyncio.run(endpoint.scores([5, 6], [7, 9], 0)) == ([[7], [9]], [[-0.007], [-0.009]])
    assert asyncio.run(endpoint.scores([5, 6], [7, 1], 2)) == ([[1, 2]] * 2, [[-0.1, -0.2]] * 2)

    def refused(answer: Callable[[dict[str, Any]], tuple[int, Any]], words: str) -> None:
        state.answer = answer
        with pytest.raises(InputError, match=words):
            check_teacher(config, SHIPPED)

    content = json.loads(tokenizer.to_str())
    tokens = content["model"]["vocab"]
    tokens["a"], tokens["b"] = tokens["b"], tokens["a"]
    other = tokenizers.Tokenizer.from_str(json.dumps(content))
    refused(scores(other), "another tokenizer than .*: the token .* is 'a' here and 'b' there")
    refused(scores(tokenizers.Tokenizer(tokenizers.models.BPE())), "does not score tokens of .*out of vocabulary")
    plain = {"id": "x", "object": "text_completion", "created": 0, "model": "m"}
    refused(lambda _: (200, {**plain, "choices": [{"index": 0, "text": "x"}]}), "it returns no prompt_logprobs")
    config.method.divergence = {"a": 0.5, "k": 2}
    state.answer = scores(tokenizer)
    check_teacher(config, SHIPPED)
    refused(lambda request: scores(tokenizer)({**request, "prompt_logprobs": 0}), "it returns no prompt_logprobs")
    refused(lambda _: (404, {"error": {"message": "no such model"}}), "no such model. Check the address")
