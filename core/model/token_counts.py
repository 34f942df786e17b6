"""Count tokens with the policy's tokenizer, from its ``tokenizer.json``: no torch, no transformers."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import InputError
from core.files import digest_bytes
from core.model.chat_template import ChatTemplate, check_chat_template
from core.model.episodes import Segment, render_episode
from core.model.prompts import CHAT, Messages, Template, render_prompt
from core.model.special_tokens import check_end_token, special_tokens

CHARACTERS = 1_000_000  # the most whose tokens are in memory at once
END_TOKEN = 1  # the trainer appends the end-of-sequence token to each turn of a target


class Counts(NamedTuple):
    """Tokens of a prompt, and of the turns of its target and the observations between them."""

    prompt: int
    target: int
    observations: int


@dataclass(frozen=True)
class Lengths:
    """Token counts of prompts and targets as the trainer will see them."""

    tokenizer: Any  # tokenizers.Tokenizer
    chat: ChatTemplate
    digest: str
    template: Template = CHAT

    def with_template(self, template: Template) -> "Lengths":
        """Return the counts with another template for the same tokenizer; its arguments stay."""
        return replace(self, template=replace(template, kwargs=self.template.kwargs))

    def prompt_text(self, messages: Messages) -> str:
        """Render the text that the policy reads before it answers, chat template included."""
        return render_prompt(messages, self.chat, self.template, bare=True)

    def count_examples(self, examples: Sequence[tuple[Messages, Messages]]) -> list[Counts]:
        """Count the tokens of each prompt and of its target as they are trained on: each turn has its end token."""
        rendered = [self._rendered(*example) for example in examples]
        texts = [text for prompt, segments in rendered for text in (prompt, *(segment.text for segment in segments))]
        lengths = iter(self.count(texts))
        counts: list[Counts] = []
        for _, segments in rendered:
            prompt, turns, observations = next(lengths), 0, 0
            for segment, length in zip(segments, lengths, strict=False):
                turns += (length + END_TOKEN) * segment.counted
                observations += length * (not segment.counted)
            counts.append(Counts(prompt, turns, observations))
        return counts

    def encode_target(self, conversation: Messages, target: Messages) -> list[int]:
        """Return the tokens of the turns of ``target`` with their end tokens, as they follow ``conversation``."""
        eos = self.chat.eos_token
        end = [] if eos is None else [self.tokenizer.token_to_id(eos)]
        turns = [segment.text for segment in self._rendered(conversation, target)[1] if segment.counted]
        return [token for turn in turns for token in [*self.tokenizer.encode(turn, add_special_tokens=False).ids, *end]]

    def _rendered(self, conversation: Messages, target: Messages) -> tuple[str, list[Segment]]:
        return render_episode(conversation, target, self.chat, self.template, bare=True)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, without special tokens."""
        counts: list[int] = []
        for batch in _batches(texts):
            encodings = self.tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            counts += [len(encoding) for encoding in encodings]
        return counts


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Split ``texts`` into lists of about `CHARACTERS`, because the tokens of a character may take 300 bytes."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        characters += len(text)
        if batch and characters > CHARACTERS:
            yield batch
            batch, characters = [], len(text)
        batch.append(text)
    if batch:
        yield batch


def load_lengths(path: Path, template: Template = CHAT) -> Lengths:
    """Load the tokenizer in ``path``, a ``tokenizer.json`` or a model folder, with its chat template.

    ``template`` has the arguments of the chat template, and the tools that it shows.

    Raises:
        InputError: there is none, it has no end token, or its chat template does not render a plain conversation.
    """
    import tokenizers

    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"tokenizer {path}: no such file; give the policy's tokenizer.json or its model folder")
    content = file.read_bytes()
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(content)
    except ValueError as error:
        raise InputError(f"tokenizer {file}: not a tokenizer.json: {error}") from error
    check_end_token(file.parent)
    check_chat_template(file.parent, template.kwargs)
    chat = ChatTemplate(file.parent)
    # No cut, no padding: a tokenizer.json may carry either from its last use, and both would falsify the counts.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = json.dumps(special_tokens(file.parent), sort_keys=True)  # templates print some of them
    digest = digest_bytes(content + (chat.chat_template or "").encode() + special.encode())
    return Lengths(tokenizer, chat, digest, template)
