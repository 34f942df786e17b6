"""One rendering of prompt and target: rollouts, training, token counts and evaluation read the same tokens."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer
from verl.utils.tokenizer.continuous_token import ContinuousTokenBuilder

from core.errors import InputError
from core.model.chat_template import ChatTemplate
from core.model.episodes import encode_episode, encode_example
from core.model.prompts import CHAT, encode_prompt, messages, render_prompt, templates
from core.model.token_counts import load_lengths
from training.methods.given import Start
from training.verl_hooks.agent_loop import OffPolicyAgentLoop
from training.verl_hooks.supervised import TargetDataset

BASE = Path(__file__).resolve().parents[3] / "training/embedded_model/model"
CONVERSATION = messages("1+1=?", "Be brief.")
TARGET = "<think>\nOne and one.\n</think>\n\n\\boxed{2}"
CHAT_ML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
OPEN = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
# Kind of chat template: its text, and the special tokens of its tokenizer.
KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "plain": (CHAT_ML + OPEN, {}),
    "system required": (
        "{% if messages[0].role != 'system' %}{{ raise_exception('a system message comes first') }}{% endif %}"
        + CHAT_ML
        + OPEN,
        {},
    ),
    "opens the thoughts": (CHAT_ML + OPEN.replace("assistant\n", "assistant\n<think>\n"), {}),
    "opens the thoughts on the line": (CHAT_ML + OPEN.replace("assistant\n", "assistant<think>"), {}),
    "strips earlier thoughts": (
        CHAT_ML.replace("m.content", "m.content.split('</think>')[-1] if m.role == 'assistant' else m.content") + OPEN,
        {},
    ),
    "with a BOS": ("{{ bos_token }}" + CHAT_ML + OPEN, {"bos_token": "<|endoftext|>"}),
    "end of turn is not the EOS": (CHAT_ML + OPEN, {"eos_token": "<|endoftext|>"}),
    "marks what the model writes": (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}\n"
        "{{ m.content }}<|im_end|>\n{% endgeneration %}{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
        + OPEN,
        {},
    ),
    "prints the date": (
        "{% set today = strftime_now('%d %b %Y') %}<|im_start|>system\nToday Date: {{ today }}<|im_end|>\n"
        + CHAT_ML
        + OPEN,
        {},
    ),
    "prints the date of a Llama": (
        "{% if not date_string is defined %}{% if strftime_now is defined %}"
        "{% set date_string = strftime_now('%d %b %Y') %}{% else %}{% set date_string = '26 Jul 2024' %}{% endif %}"
        "{% endif %}<|im_start|>system\n{{ date_string }}<|im_end|>\n" + CHAT_ML + OPEN,
        {},
    ),
    "has a switch": (
        CHAT_ML + OPEN + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n{% endif %}",
        {},
    ),
}


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a model with such a chat template."""
    template, special = KINDS[request.param]
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(BASE / name, tmp_path / name)
    (tmp_path / "chat_template.jinja").write_text(template)
    settings = json.loads((BASE / "tokenizer_config.json").read_text()) | special
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    if "bos_token" in special:  # this tokenizer puts it before every text by itself
        tokenizer = json.loads((BASE / "tokenizer.json").read_text())
        post = tokenizer["post_processor"]
        post["single"].insert(0, {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}})
        post["special_tokens"] = {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}
        (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return tmp_path


@pytest.fixture
def tokenizer(model: Path) -> Any:
    return AutoTokenizer.from_pretrained(model, local_files_only=True)


@pytest.mark.parametrize("target", [TARGET, "\\boxed{2}", "{eos}", "{eos}\n", "{eos}{eos}"])
def test_a_sample_has_one_thought_one_start_and_one_end(model: Path, tokenizer: Any, target: str) -> None:
    target = TARGET + target.format(eos=tokenizer.eos_token) if target.startswith("{eos}") else target
    example = encode_example(CONVERSATION, target, tokenizer)
    prompt, response = tokenizer.decode(example.prompt), tokenizer.decode(example.response)
    opened = prompt.rstrip().endswith("<think>")
    assert (prompt + response).count("<think>") == (opened or "<think>" in target)
    assert example.response.count(tokenizer.eos_token_id) == 1 and example.response[-1] == tokenizer.eos_token_id
    if "<think>" in target:
        assert (prompt + response).endswith(f"<think>\nOne and one.\n</think>\n\n\\boxed{{2}}{tokenizer.eos_token}")
    if tokenizer.bos_token_id is not None:
        assert example.prompt.count(tokenizer.bos_token_id) == 1 and example.prompt[0] == tokenizer.bos_token_id


def test_every_room_reads_the_same_tokens(model: Path, tokenizer: Any, tmp_path: Path) -> None:
    example = encode_example(CONVERSATION, TARGET, tokenizer)
    # Evaluation renders and encodes; the orchestration renders without transformers and counts.
    assert encode_prompt(CONVERSATION, tokenizer) == example.prompt
    assert render_prompt(CONVERSATION, ChatTemplate(model)) == tokenizer.decode(example.prompt)
    target = [{"role": "assistant", "content": TARGET}]
    counts = len(example.prompt), len(example.response), 0
    assert load_lengths(model).count_examples([(CONVERSATION, target)]) == [counts]
    # A rollout with the whole target.
    loop = OffPolicyAgentLoop.__new__(OffPolicyAgentLoop)
    loop.template, loop.response_length, loop.tokenizer = CHAT, 200, tokenizer
    row = {"raw_prompt": CONVERSATION, "target": target, "extra_info": {"id": "p"}}
    assert loop._example(row, Start(ratio=1.0)) == example
    assert loop._example(row, Start()) == (example.prompt, [], [])
    # Supervised training.
    rows = {"prompt": [CONVERSATION], "target": [[{"role": "assistant", "content": TARGET}]]}
    rows |= {"extra_info": [row["extra_info"]], "data_source": ["x"]}
    pq.write_table(pa.table(rows), tmp_path / "targets.parquet")
    item = TargetDataset(tmp_path / "targets.parquet", tokenizer)[0]
    assert item["input_ids"].tolist() == example.prompt + example.response
    assert int(item["loss_mask"].sum()) == len(example.response)


CALLING = "<think>\nI ask.\n</think>\n\n<tool_call>\n{}\n</tool_call>"


def test_an_episode_is_encoded_as_verl_appends_observations(model: Path, tokenizer: Any) -> None:
    turn, last = ({"role": "assistant", "content": text} for text in (CALLING, TARGET))
    observations = [{"role": "tool", "content": text} for text in ("4042", "error: no 7")]
    episode = [turn, *observations, last]
    if tokenizer.eos_token != "<|im_end|>":
        with pytest.raises(InputError, match="does not end a turn with"):
            encode_episode(CONVERSATION, episode, tokenizer)
        return
    prompt, response, mask = encode_episode(CONVERSATION, episode, tokenizer)
    turns = [token for token, counts in zip(response, mask, strict=True) if counts]
    assert tokenizer.decode(turns).count(tokenizer.eos_token) == 2 and mask[-1] == 1
    before = [*CONVERSATION, turn]
    builder = ContinuousTokenBuilder(tokenizer)
    appended = builder.tokenize_context_incremental_messages(before, [*before, *observations])
    line = tokenizer.encode("\n", add_special_tokens=False)  # behind the end token, which verl's builders of models add
    assert [token for token, counts in zip(response, mask, strict=True) if not counts] == line + appended
    counts = load_lengths(model).count_examples([(CONVERSATION, episode)])
    assert counts == [(len(prompt), len(turns), len(response) - len(turns))]


def test_an_observation_cannot_end_a_turn() -> None:
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    episode = [{"role": role, "content": f"4{tokenizer.eos_token}"} for role in ("assistant", "tool", "assistant")]
    response = encode_episode(CONVERSATION, episode, tokenizer).response
    assert response.count(tokenizer.eos_token_id) == 3  # of the two turns, and of the observation's message


def test_a_template_renders_the_same_text_with_transformers_and_without(model: Path, tokenizer: Any) -> None:
    answered = [*CONVERSATION, {"role": "assistant", "content": TARGET}, {"role": "user", "content": "And 2+2?"}]
    chat = ChatTemplate(model)
    reads = chat.variables()
    kwargs = {"date_string": "1 Jan 2025", "enable_thinking": False, "strftime_now": "2025-01-02"}
    for given in ({}, {name: value for name, value in kwargs.items() if name in {*reads, "strftime_now"}}):
        template = replace(CHAT, kwargs=given)
        text = render_prompt(answered, tokenizer, template)
        assert text == render_prompt(answered, chat, template)
        assert TARGET.split("</think>")[-1].strip() in text
        day = {"today": "02 Jan 2025", "date_string": "1 Jan 2025"} if given else {}
        for name in ("today", "date_string"):
            if name in (chat.chat_template or ""):
                assert day.get(name, "26 Jul 2024") in text
        assert ("enable_thinking" in given) == text.endswith("<think>\n\n")


def test_a_template_that_refuses_a_conversation_says_why(tmp_path: Path) -> None:
    shutil.copytree(BASE, tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text(KINDS["system required"][0])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model", local_files_only=True)
    for renderer in (tokenizer, ChatTemplate(tmp_path / "model")):
        with pytest.raises(InputError, match=r"conversation of user: a system message comes first.*system_prompt"):
            render_prompt(messages("1+1=?"), renderer)


def test_a_whole_prompt_begins_as_the_tokenizer_begins_a_text(tokenizer: Any) -> None:
    prompt = render_prompt(CONVERSATION, tokenizer, templates()["none"])
    bos = tokenizer.bos_token or ""
    assert prompt == f"{bos}1+1=?"
    assert tokenizer.encode(prompt, add_special_tokens=False) == tokenizer.encode("1+1=?")
