"""Episodes as they are drawn: turns of the policy's, observations of real tools, and where they end."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from unit.training.test_rendering import CONVERSATION, KINDS, model  # noqa: F401  a fixture

from core.errors import InputError
from core.model.base_model import SHIPPED
from core.model.episodes import encode_episode
from core.model.prompts import CHAT
from grading.tools.settings import ToolSettings
from training.config.to_verl import chat_template, set_tools
from training.methods.given import Start
from training.verl_hooks.agent_loop import NO_VERSION, OffPolicyAgentLoop
from training.verl_hooks.batch import EPISODE
from training.verl_hooks.reward import FINAL, TRUNCATED, compute_score

TOOLS = ToolSettings(use=[{"type": "calculator"}], format="tags", turns=4)
LAST = "<think>\nso\n</think>\n\n\\boxed{3847}"
TURNS = [
    "<think>\nI ask.\n</think>\n\n<calculator>47*86</calculator>",
    "4042",
    "<calculator>4042-195</calculator>",
    "3847",
]
WITHOUT = "end of turn is not the EOS"  # the kind of template that has no episodes


def target(*texts: str) -> list[dict[str, str]]:
    return [{"role": ("assistant", "tool")[number % 2], "content": text} for number, text in enumerate(texts)]


class Server:
    """Writes the turns of a script, whatever it is asked; what is written of a turn already is left out."""

    def __init__(self, tokenizer: Any, prompt: Sequence[int], turns: Sequence[str], starts: Sequence[int]) -> None:
        self.turns = [[*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id] for text in turns]
        self.prompt, self.starts, self.seeds, self.ids = len(prompt), starts, list[int](), set[str]()

    async def generate(self, *, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Any:
        self.seeds.append(sampling_params["seed"])
        self.ids.add(request_id)
        written = len(prompt_ids) - self.prompt
        number = sum(start <= written for start in self.starts) - 1
        tokens = self.turns[number][written - self.starts[number] :][: sampling_params["max_tokens"]]
        extra = {"max_global_steps": 5 + number, "min_global_steps": 4 + number}
        return SimpleNamespace(token_ids=tokens, log_probs=[-0.5] * len(tokens), extra_fields=extra)


def draw(folder: Path, texts: Sequence[str], start: Start, *, limit: int = 400, tools: ToolSettings = TOOLS) -> Any:
    """Return the sample of a policy that writes the turns of ``texts``, with its server and the whole target."""
    loop = OffPolicyAgentLoop.__new__(OffPolicyAgentLoop)
    loop.config = OmegaConf.create({"reward": {"truncated": "zero"}, "chat_template_kwargs": {}, "method": {}})
    OmegaConf.update(loop.config, "tools", {"settings": tools.model_dump_json(), "calls": "tags"})
    loop.tokenizer, loop.tools = AutoTokenizer.from_pretrained(folder), tools
    loop.template = chat_template(loop.config)
    loop.has_phi, loop.seed, loop.seeded, loop.response_length = True, 3, True, limit
    whole = encode_episode(CONVERSATION, target(*texts), loop.tokenizer, loop.template)
    starts = [0, *(at for at in range(1, len(whole.mask)) if whole.mask[at] > whole.mask[at - 1])]
    loop.server_manager = server = Server(loop.tokenizer, whole.prompt, texts[::2], starts)
    if loop.tokenizer.decode(whole.prompt).rstrip().endswith("<think>"):  # which the template has written
        server.turns = [
            [token for token, counts in zip(whole.response[a:b], whole.mask[a:b], strict=True) if counts]
            for a, b in zip(starts, [*starts[1:], len(whole.response)], strict=True)
        ]
    row = {"raw_prompt": CONVERSATION, "target": target(*texts), "data_source": "x", "extra_info": {"id": "p"}}
    row |= {"plan": {"starts": [start._asdict()]}, "index": 0, "target_log_probs": [-1.0] * sum(whole.mask)}
    output = asyncio.run(loop.run({}, session_id=0, global_steps=3, **row))
    return output, server, whole


@pytest.mark.parametrize("model", sorted({*KINDS} - {WITHOUT}), indirect=True)
def test_a_cut_episode_continues_to_its_target_with_the_real_tool(model: Path) -> None:  # noqa: F811
    texts = [*TURNS, LAST]
    for ratio in (0.0, 0.3, 0.5, 0.62, 1.0):
        output, server, whole = draw(model, texts, Start(ratio=ratio))
        assert (output.prompt_ids, output.response_ids, output.response_mask) == whole
        end = output.prefix_length
        assert sum(whole.mask[:end]) == int(ratio * sum(whole.mask)) and len(server.ids) <= 1
        observed = [at for at in range(end, len(whole.mask)) if not whole.mask[at]]
        assert all(output.versions[at] == NO_VERSION and output.response_logprobs[at] == 0.0 for at in observed)
        phi = output.as_dict()["off_policy_log_probs"][:end].tolist()
        assert phi == [-1.0 if counts else 0.0 for counts in whole.mask[:end]]
        assert output.extra_fields[EPISODE] == {
            **{"turns": 3, "calls": 2, "failed_calls": 0, "truncated": False},
            "observation_tokens": len(whole.mask) - sum(whole.mask),
            "tool_seconds": output.extra_fields[EPISODE]["tool_seconds"],
        }
        assert output.extra_fields[FINAL].split() == LAST.split() and not output.extra_fields[TRUNCATED]
    assert draw(model, texts, Start())[1].seeds[1:] == draw(model, texts, Start(ratio=0.5))[1].seeds


@pytest.mark.parametrize(
    ("texts", "limit", "turns", "calls", "truncated"),
    [
        (["\\boxed{3847}"], 400, 4, 0, False),
        (["<gold>1</gold>"], 400, 4, 0, False),  # no call of a tool that there is
        (["<calculator>1/0</calculator>", "error: division by zero", "\\boxed{1}"], 400, 4, 1, False),
        (["<calculator>1</calculator>", "1"] * 5, 400, 4, 3, True),  # no turn is left
        (["<calculator>1</calculator>", "1", LAST], 40, 4, 0, True),  # no room for an observation
        (["<calculator>1</calculator>", "1", LAST * 9], 120, 4, 1, True),  # no room for the last turn
        (["<calculator>" + "1" * 60], 40, 4, 0, True),
    ],
)
def test_an_episode_ends(texts: list[str], limit: int, turns: int, calls: int, truncated: bool) -> None:
    output, server, _ = draw(SHIPPED, texts, Start(), limit=limit, tools=TOOLS.model_copy(update={"turns": turns}))
    record = output.extra_fields[EPISODE]
    assert (record["calls"], record["truncated"], output.extra_fields[TRUNCATED]) == (calls, truncated, truncated)
    assert record["failed_calls"] == sum(text.startswith("error") for text in texts)
    assert len(output.response_ids) <= limit and output.response_mask[-1] == 1  # never on an observation
    assert len(set(server.seeds)) == len(server.seeds) == output.requests == record["turns"]
    assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (
        4,
        4 + output.requests,
    )


@pytest.mark.parametrize(
    ("final", "score"),
    [
        ("\\boxed{3}", 1.0),
        ("<think>\nis it\n</think>\n\n\\boxed{3}", 1.0),
        ("<think>\nis it \\boxed{3}", 0.0),  # thoughts that stay open
        ("nothing", 0.0),
    ],
)
def test_the_last_turn_is_graded(final: str, score: float) -> None:
    text = f"<calculator>1+2</calculator>\\boxed{{3}}{final}"
    assert compute_score("x", text, "3", {FINAL: final})["score"] == score


def test_tools_that_do_not_fit_a_run_say_so() -> None:
    config = OmegaConf.create({"method": {"prefix": {"min": 0.5}}, "chat_template_kwargs": {}})
    with pytest.raises(InputError, match=r"method.prefix.min: 0.5 lets real tools continue targets"):
        set_tools(config, TOOLS.model_copy(update={"replay": False}), SHIPPED)
    with pytest.raises(InputError, match="its chat template shows no tools"):
        set_tools(config, TOOLS.model_copy(update={"format": "auto"}), SHIPPED)
    set_tools(config, TOOLS, SHIPPED)
    assert (
        chat_template(config).calls == "tags" and chat_template(OmegaConf.create({"chat_template_kwargs": {}})) == CHAT
    )
