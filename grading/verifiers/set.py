"""Labels or codes in any order: the diagnoses of a case, the tags of a text, the items of a list."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from core.text.patterns import compile_quick_pattern
from grading.verdict import UnfitGold
from grading.verifiers.exact import Difference, normalize_text
from grading.verifiers.verifier import ScoredOptions, Verifier

_BRACKETS = compile_quick_pattern(r"(?s)\A\s*(?:\\?\{(.*?)\\?\}|\[(.*)\])\s*\Z")


class SetOptions(ScoredOptions):
    """``score``: 1 for the same labels and 0 otherwise, or F1 of the labels. ``separators``: signs between labels."""

    separators: str = Field(",;\n", min_length=1)
    score: Literal["exact", "f1"] = "exact"
    ignore: tuple[Difference, ...] = ("case", "space")


class SetVerifier(Verifier):
    """The answer has the labels of the gold answer, each once or several times: between separators, or as JSON."""

    Options = SetOptions

    def expected(self, gold: str, fields: Mapping[str, Any]) -> frozenset[str]:
        labels = self.labels(gold)
        if not labels:
            raise UnfitGold("it has no label")
        return labels

    def compare(self, answer: str, expected: frozenset[str]) -> tuple[float, str]:
        stated = self.labels(answer)
        common, missing, more = len(stated & expected), expected - stated, stated - expected
        reason = "; ".join(
            f"{title}: {', '.join(sorted(labels))[:80]}"
            for title, labels in (("missing", missing), ("more", more))
            if labels
        )
        score = float(not reason) if self.options.score == "exact" else 2 * common / (len(stated) + len(expected))
        return score, reason or "the same labels"

    def labels(self, text: str) -> frozenset[str]:
        """Return the labels of a text, without the differences that are ignored.

        >>> verifier = SetVerifier(SetOptions(), None)
        >>> sorted(verifier.labels("[E11.9,  i10]")), sorted(verifier.labels('["E11.9", "I10"]'))
        (['e11.9', 'i10'], ['e11.9', 'i10'])
        """
        try:
            values = json.loads(text)
            parts = [str(value) for value in values] if isinstance(values, list) else [text]
        except ValueError:
            parts = [text]
        if parts == [text]:
            if match := _BRACKETS.match(text):
                text = match[1] or match[2] or ""
            for sign in self.options.separators:
                text = text.replace(sign, "\0")
            parts = text.split("\0")
        return frozenset(label for part in parts if (label := normalize_text(part, self.options.ignore)))
