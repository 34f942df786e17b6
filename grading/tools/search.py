"""A search for words in the texts of a folder, ranked by BM25."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from core.errors import InputError
from core.model.calls import Call
from core.text.patterns import compile_quick_pattern
from grading.tools.tool import Context, Exchange, Tool, ToolError, function_schema

SUFFIXES = (".txt", ".md")
K1, B = 1.2, 0.75  # of BM25: how fast repeated words saturate, and how much long texts are discounted
WORD = compile_quick_pattern(r"\w+")


class Search(Tool):
    """Finds the paragraphs that have the words of a query."""

    folder: str  # its .txt and .md files, with those of its folders
    results: int = Field(3, ge=1)

    def schema(self) -> dict[str, Any]:
        return function_schema(self, query="words to look for")

    def prepare(self) -> None:
        if not index_of(self.folder).paragraphs:
            raise InputError(f"{self.folder}: no text in it; expected a folder with {' or '.join(SUFFIXES)} files")

    def run(self, call: Call, history: Sequence[Exchange], context: Context) -> str:
        query = call.arguments.get("query")
        if not isinstance(query, str):
            raise ToolError("expected a text as query")
        found = ranked(index_of(self.folder), query)[: self.results]
        return "\n\n".join(found) or "nothing found"


class Index(NamedTuple):
    """The paragraphs of a folder with the counts of their words, their mean length, and how many have each word."""

    paragraphs: Sequence[tuple[str, Counter[str]]]
    mean: float
    documents: Mapping[str, int]


@cache
def index_of(folder: str) -> Index:
    files = sorted(file for file in Path(folder).rglob("*") if file.suffix in SUFFIXES)
    texts = [text.strip() for file in files for text in file.read_text(errors="replace").split("\n\n") if text.strip()]
    paragraphs = [(text, Counter(WORD.findall(text.lower()))) for text in texts]
    mean = sum(words.total() for _, words in paragraphs) / max(len(paragraphs), 1)
    return Index(paragraphs, mean, Counter(word for _, words in paragraphs for word in words))


def ranked(index: Index, query: str) -> list[str]:
    """Return the paragraphs with a word of ``query``, the best one first."""
    count, wanted = len(index.paragraphs), WORD.findall(query.lower())
    scores: list[tuple[float, int]] = []
    for number, (_, words) in enumerate(index.paragraphs):
        length, score = words.total() / index.mean, 0.0
        for word in wanted:
            having, times = index.documents.get(word, 0), words[word]
            rarity = math.log(1 + (count - having + 0.5) / (having + 0.5))
            score += rarity * times * (K1 + 1) / (times + K1 * (1 - B + B * length))
        if score:
            scores.append((-score, number))
    return [index.paragraphs[number][0] for _, number in sorted(scores)]
