"""Traces that call tools: every spelling becomes one target, and what is wrong with one is its reason."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from preparing import TEMPLATE, rows, run

from core.errors import InputError
from core.files import write_json
from core.model.token_counts import load_lengths
from grading.tools.settings import read_tools
from targets.files import TOOLS, read_metadata

QUESTION, ANSWER = "What is 47 * 86 - 195?", "3847"
LAST = "So it is \\boxed{3847}."
PYTHON = {"type": "python", "name": "code"}
SHOWS = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}"
CELLS = [("print(47 * 86)", "4042"), ("4042 - 195", "3847")]


def hermes(code: str, tool: str = "code") -> str:
    return "<tool_call>\n" + json.dumps({"name": tool, "arguments": {"code": code}}) + "\n</tool_call>"


def openai(cells: Any = CELLS, **changes: Any) -> list[dict[str, Any]]:
    """Return a chat with parallel calls, whose observations come in the other order."""
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": "code", "arguments": json.dumps({"code": code})}}
        for number, (code, _) in enumerate(cells)
    ]
    answers = [
        {"role": "tool", "tool_call_id": f"c{number}", "content": said} for number, (_, said) in enumerate(cells)
    ]
    turn = {"role": "assistant", "content": None, "tool_calls": calls} | changes
    return [{"role": "user", "content": QUESTION}, turn, *answers[::-1], {"role": "assistant", "content": LAST}]


def chat(turns: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": QUESTION}, *({"role": role, "content": text} for role, text in turns)]


def called(*cells: tuple[str, str], tool: str = "code") -> list[dict[str, Any]]:
    turns = [pair for code, said in cells for pair in (("assistant", hermes(code, tool)), ("tool", said))]
    return chat([*turns, ("assistant", LAST)])


SHAREGPT = [
    {"from": "human", "value": QUESTION},
    {"from": "function_call", "value": json.dumps({"name": "code", "arguments": {"code": CELLS[0][0]}})},
    {"from": "observation", "value": "4042"},
    {"from": "gpt", "value": LAST},
]
USES = [{"type": "tool_use", "id": code, "name": "code", "input": {"code": code}} for code, _ in CELLS]
SAID = [
    {"type": "tool_result", "tool_use_id": code, "content": [{"type": "text", "text": said}]} for code, said in CELLS
]
ANTHROPIC = [
    {"role": "user", "content": QUESTION},
    {"role": "assistant", "content": [{"type": "text", "text": "I compute."}, *USES]},
    {"role": "user", "content": SAID[::-1]},
    {"role": "assistant", "content": [{"type": "text", "text": LAST}]},
]
RESPONSES = "\n".join(f"<tool_response>\n{said}\n</tool_response>" for _, said in CELLS)
CALLS = "\n".join(hermes(code) for code, _ in CELLS)
TAGGED = chat([("assistant", CALLS), ("user", RESPONSES), ("assistant", LAST)])
RETOOL = f"I compute.\n<code>\n```python\n{CELLS[0][0]}\n```\n</code>\n<interpreter>\n4042\n</interpreter>\n{LAST}"
THINKING = [("assistant", "<think>\nfirst " + hermes("1/0")), ("tool", "error: ZeroDivisionError: division by zero")]
ONE = [{"role": "assistant", "content": hermes(CELLS[0][0])}, {"role": "tool", "content": "4042"}]
TWO = [{"role": "assistant", "content": CALLS}, *({"role": "tool", "content": said} for _, said in CELLS)]
GOOD: dict[str, tuple[Any, list[dict[str, str]]]] = {
    "openai": (openai(), TWO),
    "anthropic": (ANTHROPIC, [{**TWO[0], "content": f"I compute.\n{TWO[0]['content']}"}, *TWO[1:]]),
    "responses in tags": (TAGGED, TWO),
    "hermes": (called(CELLS[0]), ONE),
    "sharegpt": (SHAREGPT, ONE),
    "calls in a list": ([SHAREGPT[0], {**SHAREGPT[1], "value": f"[{SHAREGPT[1]['value']}]"}, *SHAREGPT[2:]], ONE),
    "retool": (RETOOL, [{**ONE[0], "content": f"I compute.\n{ONE[0]['content']}"}, ONE[1]]),
}
BAD = {
    "bad_call": chat([("assistant", "<tool_call>{</tool_call>"), ("tool", "1"), ("assistant", LAST)]),
    "bad_call: not an object": openai(tool_calls=["code"]),
    "wrong_type": chat([("assistant", hermes("1")), ("tool", {"result": 1}), ("assistant", LAST)]),
    "unknown_tool": called(CELLS[0], tool="gold"),
    "unanswered_call": chat([("assistant", hermes("1") * 2), ("tool", "1"), ("assistant", LAST)]),
    "unanswered_call: an observation comes first": chat([("tool", "1"), ("assistant", LAST)]),
    "no_final_answer": chat([("assistant", hermes("1")), ("tool", "1")]),
    "wrong": [*called(("3848 - 1", "3847"))[:-1], {"role": "assistant", "content": "\\boxed{3848}"}],
    "observation_differs": called(("47 * 86", "4043")),
    "several_turns": [*called(CELLS[0]), {"role": "user", "content": "Sure?"}, {"role": "assistant", "content": LAST}],
    # The answer of an observation does not count.
    "no_box": [*called(("print('\\\\boxed{3847}')", "\\boxed{3847}"))[:-1], {"role": "assistant", "content": "Done."}],
}


@pytest.fixture
def model(tmp_path: Path, tokenizer: Path) -> Callable[[str], Path]:
    def make(template: str) -> Path:
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "tokenizer.json").write_bytes((tokenizer / "tokenizer.json").read_bytes())
        settings = {"eos_token": {"content": "<|im_end|>"}, "chat_template": template, "name_or_path": "m"}
        write_json(settings, folder / "tokenizer_config.json")
        return folder

    return make


def row(value: Any, number: int = 0) -> dict[str, Any]:
    problem = f"{QUESTION} ({number})"
    if isinstance(value, str):
        return {"problem": problem, "answer": ANSWER, "response": value}
    return {"messages": json.loads(json.dumps(value).replace(QUESTION, problem)), "answer": ANSWER}


@pytest.mark.parametrize("name", GOOD)
def test_every_spelling_becomes_turns(name: str, tmp_path: Path, jsonl: Any, model: Any) -> None:
    value, turns = GOOD[name]
    folder = model(SHOWS + TEMPLATE)
    prepared = run(jsonl(row(value)), tmp_path / "out", folder, tools={"use": [PYTHON]})
    (target,) = rows(prepared.prepared)
    assert target["target"] == [*turns, {"role": "assistant", "content": LAST}]
    (profile,) = rows(prepared.profile)
    assert profile["verified"] and profile["has_think"]
    tools = read_tools(read_metadata(prepared.prepared, "")[TOOLS], "targets")
    assert tools.use == [PYTHON]
    lengths = load_lengths(folder)
    counts = lengths.with_template(tools.template(lengths.chat)).count_examples([(target["prompt"], target["target"])])
    assert (profile["prompt_tokens"], profile["target_tokens"]) == (counts[0].prompt, sum(counts[0][1:]))
    calls = [turn for turn in turns if turn["role"] == "tool"]
    assert (profile["calls"], profile["observation_tokens"]) == (len(calls), counts[0].observations)
    assert counts[0].prompt > lengths.count_examples([(target["prompt"], [])])[0].prompt  # it shows the tools


def test_what_is_wrong_with_an_episode_is_its_reason(tmp_path: Path, jsonl: Any, model: Any) -> None:
    traces = [row(value, number) for number, value in enumerate(BAD.values())]
    good = row(chat([*THINKING, ("assistant", f"now I know\n</think>\n\n{LAST}")]), 99)
    prepared = run(jsonl(*traces, good), tmp_path / "out", model(SHOWS + TEMPLATE), tools={"use": [PYTHON]})
    reasons = {row["row"]: row["reason"] for row in rows(prepared.rejected)}
    assert reasons == {number: name.partition(":")[0] for number, name in enumerate(BAD)}
    assert prepared.counts["read"] == len(BAD) + 1 and prepared.counts["kept"] == 1


def test_tags_are_calls_and_replay_can_be_left_out(tmp_path: Path, jsonl: Any, tokenizer: Path) -> None:
    turns = [("assistant", "<calculator>47*86</calculator>"), ("tool", "4042"), ("assistant", LAST)]
    tools: dict[str, Any] = {"use": [{"type": "calculator"}], "format": "tags"}
    source = jsonl(row(chat(turns)), row(chat([turns[0], ("tool", "5"), turns[2]]), 1))
    assert run(source, tmp_path / "out", tokenizer, tools=tools).counts["kept"] == 1
    assert run(source, tmp_path / "out", tokenizer, tools=tools | {"replay": False}).counts["kept"] == 2


def test_the_embedded_traces_agree_with_the_calculator(tmp_path: Path, tokenizer: Path) -> None:
    tools = {"use": [{"type": "calculator"}], "format": "tags"}
    prepared = run("embedded", tmp_path / "out", tokenizer, tools=tools, embedded_split="train_calls", embedded_rows=20)
    assert prepared.counts == {"read": 20, "kept": 20}


@pytest.mark.parametrize(
    ("template", "tools", "words"),
    [
        (TEMPLATE, {}, "its chat template shows no tools: describe them in targets.system_prompt"),
        (SHOWS + TEMPLATE, {"format": "llama"}, "tools.format: llama, but the template of .* writes hermes"),
    ],
)
def test_a_template_that_does_not_fit_says_so(
    template: str, tools: Any, words: str, tmp_path: Path, jsonl: Any, model: Any
) -> None:
    with pytest.raises(InputError, match=words):
        run(jsonl(row(called(CELLS[0]))), tmp_path / "out", model(template), tools={"use": [PYTHON], **tools})
