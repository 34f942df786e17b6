"""Lengths under the policy's own tokenizer, from its ``tokenizer.json``: no torch, no transformers.

tiktoken counts with the same vocabulary and is faster: 2,100 texts of 1,085 tokens per CPU second, where the tokenizer
counts 780 (``python -m perf.targets`` measures both). It is used only where it agrees with the tokenizer on `PROBES`
and on a sample of the source's texts (`Lengths.agreeing`).
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import digest_bytes
from core.model.chat_template import ChatTemplate, check_chat_template
from core.model.prompts import CHAT, Messages, Template, render_prompt, render_target
from core.model.special_tokens import check_end_token
from core.text.parse import parse_object

CHARACTERS = 1_000_000  # whose tokens are in memory at once
END_TOKEN = 1  # the trainer appends the end-of-sequence token to a target

# How GPT-2's pre-tokenizer splits, which a ByteLevel one with use_regex means.
GPT2_SPLIT = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
# Texts on which tiktoken must count as the tokenizer does: blanks, digits, LaTeX, other scripts, long and odd runs.
PROBES = (
    "",
    " ",
    "So we have  $x^{2}+3x-10=0$,\n\n\tthus \\(x = -5\\) or x=2.\r\n   \n  Wait, that isn't right; we'll re-check.",
    "\\[\\frac{1}{2}\\cdot\\sqrt{144}\\approx 6.0000, \\quad\\text{I'LL SAY}\\ 1,234,567.89\\%\\]",
    "0123456789" * 7 + " 3.14159 1e-5 0x1F 12 345 678",
    "a" * 90 + "=" * 70 + " " * 60 + "\n" * 50 + "-+" * 30 + "\t\t" * 9,
    "\u2264\u2265\u2260\u221e\u03b1\u03b2\u03c0\u2211\u222b caf\u00e9 na\u00efve e\u0301 \u6211\u4eec",
    "\u043c\u0438\u0440 \u0627\u0644 \U0001f600\u200d\u00a0\u3000.",
    "def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)  # O(2^n)\n\n\nprint(f(10))",
    "<think>\nLet's see...\n</think>\n\n**Answer:** \\boxed{\\dfrac{7}{3}}<|im_end|>\n",
)


@dataclass(frozen=True)
class Lengths:
    """Token counts of prompts and targets as the trainer will see them."""

    tokenizer: Any  # tokenizers.Tokenizer
    chat: ChatTemplate
    digest: str
    template: Template = CHAT
    fast: Any = None  # tiktoken.Encoding of the same vocabulary, where there is one
    composed: bool = False  # the tokenizer composes characters (NFC) first

    def prompt_text(self, messages: Messages) -> str:
        """What the policy sees before it answers, chat template included."""
        return render_prompt(messages, self.chat, self.template, bare=True)

    def count_examples(self, examples: Sequence[tuple[Messages, str]]) -> list[tuple[int, int]]:
        """Tokens of each prompt and of its target, as they are trained on: the target has its end token."""
        prompts = [self.prompt_text(conversation) for conversation, _ in examples]
        targets = [
            render_target(prompt, target, self.chat.eos_token)
            for prompt, (_, target) in zip(prompts, examples, strict=True)
        ]
        lengths = zip(self.count(prompts), self.count(targets), strict=True)
        return [(prompt, target + END_TOKEN) for prompt, target in lengths]

    def encode_target(self, conversation: Messages, target: str) -> list[int]:
        """The tokens of ``target`` after the prompt of ``conversation``, its end token last, as they are trained on."""
        eos = self.chat.eos_token
        text = render_target(self.prompt_text(conversation), target, eos)
        end = [] if eos is None else [self.tokenizer.token_to_id(eos)]
        return [*self.tokenizer.encode(text, add_special_tokens=False).ids, *end]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens added."""
        if self.fast is not None:
            return [self._count_fast(text) for text in texts]
        counts: list[int] = []
        for batch in _batches(texts):
            encodings = self.tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            counts += [len(encoding) for encoding in encodings]
        return counts

    def agreeing(self, texts: Sequence[str]) -> "Lengths":
        """These lengths, without the fast way where it counts other tokens in one of ``texts``."""
        exact = self.exactly()
        return self if self.fast is None or self.count(texts) == exact.count(texts) else exact

    def exactly(self) -> "Lengths":
        """These lengths by the tokenizer itself."""
        return replace(self, fast=None)

    def _count_fast(self, text: str) -> int:
        if self.composed and not text.isascii():
            text = unicodedata.normalize("NFC", text)
        return len(self.fast.encode_to_numpy(text, allowed_special="all"))


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """``texts`` in lists of about `CHARACTERS`: the tokens of one character may take 300 bytes."""
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


def load_lengths(path: Path, kwargs: Mapping[str, Any] | None = None) -> Lengths:
    """The tokenizer in ``path``, a ``tokenizer.json`` or the model folder that holds one, with its chat template.

    ``kwargs`` are the arguments of the chat template.

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
    check_chat_template(file.parent, kwargs)
    chat = ChatTemplate(file.parent)
    # No cut, no padding: a tokenizer.json may carry either from its last use, and both would falsify the counts.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    model = parse_object(content, f"tokenizer {file}")
    lengths = Lengths(
        tokenizer,
        chat,
        digest_bytes(content + (chat.chat_template or "").encode()),
        replace(CHAT, kwargs=kwargs or {}),
        _fast(model),
        (model.get("normalizer") or {}).get("type") == "NFC",
    ).agreeing(PROBES)
    return lengths


def _fast(model: dict[str, Any]) -> Any:
    """A tiktoken.Encoding of a byte-level BPE tokenizer.json, or None where it is of another kind."""
    bpe, split = model["model"], _split_pattern(model.get("pre_tokenizer") or {})
    plain = not (bpe.get("dropout") or bpe.get("continuing_subword_prefix") or bpe.get("end_of_word_suffix"))
    normalizer = (model.get("normalizer") or {"type": "NFC"})["type"]
    if bpe.get("type") != "BPE" or split is None or not plain or normalizer != "NFC":
        return None
    added = {token["content"]: token for token in model.get("added_tokens") or []}
    if any(token["lstrip"] or token["rstrip"] or token["single_word"] for token in added.values()):
        return None
    import tiktoken

    merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in bpe["merges"]]
    order = {"".join(merge): rank for rank, merge in reversed(list(enumerate(merges)))}
    letters = _byte_of_letter()
    singles = [token for token in bpe["vocab"] if token not in added and len(token) == 1]
    tokens = [*sorted(singles), *sorted(order, key=lambda token: order[token])]
    if not all(letter in letters for token in tokens for letter in token) or len(singles) < 256:
        return None
    ranks = {bytes(letters[letter] for letter in token): rank for rank, token in enumerate(dict.fromkeys(tokens))}
    special = {content: len(ranks) + k for k, content in enumerate(added)}
    return tiktoken.Encoding("policy", pat_str=split, mergeable_ranks=ranks, special_tokens=special)


def _split_pattern(pre_tokenizer: dict[str, Any]) -> str | None:
    """The regular expression that cuts a text into words before BPE, where it is one that tiktoken can use."""
    if pre_tokenizer.get("type") == "ByteLevel" and not pre_tokenizer.get("add_prefix_space"):
        return GPT2_SPLIT if pre_tokenizer.get("use_regex", True) else None
    parts = pre_tokenizer.get("pretokenizers") or []
    if [part.get("type") for part in parts] != ["Split", "ByteLevel"] or parts[1].get("add_prefix_space"):
        return None
    split, byte_level = parts
    isolated = split.get("behavior") == "Isolated" and not split.get("invert") and not byte_level.get("use_regex", True)
    return split["pattern"].get("Regex") if isolated else None


def _byte_of_letter() -> dict[str, int]:
    """{letter: byte} of byte-level BPE: printable Latin-1 stands for itself, the other bytes from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + k): b for k, b in enumerate(others)}
