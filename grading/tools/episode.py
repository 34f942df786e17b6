"""An episode while it is drawn: turns and observations as tokens, and why it ended."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from core.model.calls import Call, read_calls
from core.model.episodes import TOOL, Example, final_turn, observation_text
from core.model.prompts import OPEN_THOUGHTS, Messages, Template
from grading.tools.replay import turns_of
from grading.tools.tool import Exchange
from grading.tools.toolbox import ERROR

LENGTH, TURNS = "length", "turns"  # why an episode was cut: no room is left in the response, or no turn


class Episode:
    """The response of one sample: `add_turn` and `observe` append to it, and the mask is 0 for observations.

    Args:
        prefix: the prompt, and the tokens that the response starts with.
        target: the messages that ``prefix`` is the beginning of.
        conversation: of the prompt.
        limit: of the tokens of the response.
        turns: maximum number of turns.
    """

    def __init__(
        self,
        prefix: Example,
        target: Messages,
        conversation: Messages,
        tokenizer: Any,
        template: Template,
        *,
        limit: int,
        turns: int = 1,
    ) -> None:
        self.prompt, self.response, self.mask = prefix.prompt, list(prefix.response), list(prefix.mask)
        self.ended = ""
        self._conversation, self._tokenizer, self._template = conversation, tokenizer, template
        self._limit, self._turns = limit, turns
        # Where the turns start: at the beginning, and behind each observation.
        self._starts = [0, *(at for at in range(1, len(self.mask)) if self.mask[at] > self.mask[at - 1])]
        self.history = self._earlier(target)

    def _earlier(self, target: Messages) -> list[Exchange]:
        """Return the recorded exchanges in the prefix."""
        if not self._template.calls:
            return []
        exchanges: list[Exchange] = []
        for text, observations in list(turns_of(target))[: len(self._starts) - 1]:
            calls = read_calls(text, self._template.calls, self._template.tools)
            exchanges += [Exchange(*pair) for pair in zip(calls, observations, strict=True)]
        return exchanges

    @property
    def number(self) -> int:
        """The number of the present turn, from 0."""
        return len(self._starts) - 1

    @property
    def room(self) -> int:
        """The tokens that the response may still get."""
        return self._limit - len(self.response)

    @property
    def is_open(self) -> bool:
        """Whether the present turn has no end token yet."""
        end = self._tokenizer.eos_token_id
        return len(self.response) == self._starts[-1] or self.response[-1] != end

    def add_turn(self, tokens: Sequence[int]) -> None:
        """Append what the policy wrote of the present turn."""
        self.response += tokens
        self.mask += [1] * len(tokens)

    def calls(self) -> list[Call]:
        """Return the calls of the present turn; none if it has no end, and none where no further turn is allowed."""
        if not self._template.calls or self.is_open:
            return []
        calls = read_calls(self._texts()[-1], self._template.calls, self._template.tools)
        if calls and len(self._starts) >= self._turns:
            self.ended = TURNS
            return []
        return calls

    def observe(self, exchanges: Sequence[Exchange]) -> int:
        """Append the observations of the present turn's calls; the number of their tokens, and 0 without room for them.

        A response never ends on an observation.
        """
        pairs = [(exchange.call.name, exchange.observation) for exchange in exchanges]
        text = observation_text(self._conversation, pairs, self._tokenizer, self._template)
        tokens = self._tokenizer.encode(text, add_special_tokens=False)
        if len(tokens) >= self.room:
            self.ended = LENGTH
            return 0
        self.response += tokens
        self.mask += [0] * len(tokens)
        self._starts.append(len(self.response))
        self.history += exchanges
        return len(tokens)

    def final(self) -> str:
        """Return the text that states the answer; see `core.model.episodes.final_turn`."""
        return final_turn(self.messages())

    def messages(self) -> list[dict[str, str]]:
        """Return the turns, and the observations behind each."""
        messages, left = list[dict[str, str]](), iter(self.history)
        for text in self._texts():
            calls = read_calls(text, self._template.calls, self._template.tools) if self._template.calls else []
            messages.append({"role": "assistant", "content": text})
            messages += [{"role": TOOL, "content": one.observation} for one in islice(left, len(calls))]
        return messages

    def record(self) -> Mapping[str, float]:
        """Return the figures of the episode."""
        failed = sum(exchange.observation.startswith(ERROR) for exchange in self.history)
        figures = {"turns": len(self._starts), "calls": len(self.history), "failed_calls": failed}
        cut = bool(self.ended) or self.room <= 0
        return figures | {"observation_tokens": len(self.mask) - sum(self.mask), "truncated": cut}

    def _texts(self) -> list[str]:
        """Return the turns as texts, each with the ``<think>`` that what is before it has opened."""
        ends = [*self._starts[1:], len(self.response)]
        before, texts = self.prompt, list[str]()
        for start, end in zip(self._starts, ends, strict=True):
            written = [self.response[at] for at in range(start, end) if self.mask[at]]
            text = self._tokenizer.decode(written, skip_special_tokens=True)
            opened = self._tokenizer.decode(before).rstrip().endswith(OPEN_THOUGHTS)
            texts.append(f"{OPEN_THOUGHTS}\n{text}" if opened else text)
            before = self.response[start:end]
        return texts
