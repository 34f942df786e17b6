"""A reasoning trace: its content, the decisions of the filters, and its rows in the output files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.model.episodes import final_turn
from core.schemas import DECISION, REJECTED
from core.text.markdown import shorten
from grading.row_fields import row_fields

OPEN_THINK, CLOSE_THINK = "<think>\n", "\n</think>\n\n"
# Characters of a rejected trace's texts that the files keep.
LONGEST_PROBLEM, LONGEST_GOLD, LONGEST_DETAIL, LONGEST_RESPONSE = 2000, 500, 400, 8000
LONGEST_METADATA = 200  # characters of a value


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a trace cannot be a target: the name of the filter, the numbers or the text behind it, and the id of the
    accepted trace that it repeats.
    """

    reason: str
    detail: str = ""
    duplicate_of: str | None = None


class Unusable(Exception):
    """A value of one row that does not fit."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.rejection = Rejection(reason, detail)


@dataclass(slots=True)
class Trace:
    """One generation for one problem. Reading fills in the first group of fields and the filters the others.

    A cache file has one column per field, except ``system`` and ``target_token_ids``, which only the filters need.
    """

    id: str
    source: str
    row: int  # in the source, from 0
    of: int = 1  # traces that this row of the source gives
    problem: str | None = None
    gold: str | None = None
    response: str | None = None
    turns: list[dict[str, str]] | None = None  # of an episode: its turns and the observations between them
    system: str | None = None
    upstream_correct: bool | None = None
    target_log_probs: list[float] | None = None  # the teacher's, of each token of the target and its end token
    target_token_ids: list[int] | None = None  # the tokens that those are of, by the teacher's tokenizer

    data_source: str = ""  # name of the block of the settings that it comes from
    fields: dict[str, Any] = field(default_factory=dict)  # what the verifier reads besides the gold answer
    metadata: dict[str, str] = field(default_factory=dict)  # what the source says of it: license, teacher, columns

    # --- the decision
    reasons: list[str] = field(default_factory=list)  # names of the filters that rejected it; empty: accepted
    detail: str | None = None  # what each of them says
    response_format: str | None = None  # of the response's markers
    verdict: str | None = None  # "correct", or why not; None: the answer was not compared
    duplicate_of: str | None = None  # what it repeats: the id of a kept trace, or BENCHMARK/ID
    duplicate_problem: str | None = None  # the problem of that benchmark
    response_chars: int | None = None  # of a rejected trace, whose response is an excerpt

    # --- what an accepted trace becomes
    prompt: list[dict[str, str]] = field(default_factory=list)
    target: str = ""
    answer: str = ""  # the boxed answer that was verified
    problem_digest: str | None = None
    spelling_key: int | None = None
    text_key: int | None = None
    gold_key: int | None = None
    near_key: int | None = None
    target_key: int | None = None
    target_bytes: int | None = None
    has_log_probs: bool | None = None
    minhash: bytes | None = None

    # --- its profile
    prompt_tokens: int | None = None
    target_tokens: int | None = None
    calls: int | None = None
    observation_tokens: int | None = None
    verified: bool | None = None
    gold_parses: bool | None = None
    has_think: bool | None = None
    has_answer: bool | None = None
    compression_ratio: float | None = None
    wrong_equation: bool | None = None
    language: str | None = None
    about_problem: bool | None = None
    reaches_answer: bool | None = None
    gold_is_answer: bool | None = None
    chars_per_word: float | None = None
    backslashes: float | None = None
    html_escapes: bool | None = None
    non_ascii: float | None = None
    gold_digest: str | None = None
    benchmark_overlap: bool | None = None

    @property
    def verifier_fields(self) -> dict[str, Any]:
        """What its verifier reads besides the answer and the gold answer."""
        return {**row_fields(self.data_source, self.problem, None), **self.fields}

    @property
    def conclusion(self) -> str:
        """What follows the thoughts; the whole response if it was not split."""
        if self.turns:
            return self.final.rpartition(CLOSE_THINK.strip())[2]
        return self.target.partition(CLOSE_THINK)[2] if self.target else self.response or ""

    @property
    def final(self) -> str:
        """The text that states the answer: the target, or of an episode its last turn."""
        return final_turn(self.turns) if self.turns else self.target

    @property
    def messages(self) -> list[dict[str, str]]:
        """The target as messages."""
        return self.turns or [{"role": "assistant", "content": self.target}]

    def reject(self, rejection: Rejection) -> None:
        """Add a reason."""
        self.reasons.append(rejection.reason)
        self.duplicate_of = self.duplicate_of or rejection.duplicate_of
        self.detail = "; ".join(filter(None, (self.detail, rejection.detail)))

    def shorten(self) -> None:
        """Keep only what ``rejected.parquet`` says of a rejected trace, as short and valid Unicode."""
        self.problem, self.gold = printable(self.problem, LONGEST_PROBLEM), printable(self.gold, LONGEST_GOLD)
        self.detail = printable(self.detail, LONGEST_DETAIL)
        self.duplicate_problem = printable(self.duplicate_problem, LONGEST_PROBLEM)
        if self.response_chars is None:
            whole = self.response or self.target or ""
            self.response, self.response_chars = excerpt(whole) if whole else None, len(whole)
        self.system = self.target_log_probs = self.target_token_ids = None
        self.target, self.prompt, self.turns = "", [], None

    @classmethod
    def from_decision(cls, row: dict[str, Any]) -> "Trace":
        """The trace of the (columns of a) row of a cache file."""
        fields = json.loads(row.get("fields") or "{}")
        return cls(**{**row, "fields": fields, "metadata": dict(row.get("metadata") or ())})

    def decision_row(self) -> dict[str, Any]:
        """The row of a cache file."""
        row = {name: getattr(self, name) for name in DECISION.names}
        return {**row, "fields": json.dumps(self.fields) if self.fields else None}

    def rejected_row(self) -> dict[str, Any]:
        """The REJECTED row: why, and enough to find the trace again."""
        self.shorten()
        return {"reason": self.reasons[0], **{name: getattr(self, name) for name in REJECTED.names if name != "reason"}}


def rejected_target_row(row: Mapping[str, Any], rejection: Rejection) -> dict[str, Any]:
    """Convert the TARGET row of a discarded target into a REJECTED row."""
    info = row["extra_info"]
    return {
        "id": info["id"],
        "source": info["source"],
        "reason": rejection.reason,
        "reasons": [rejection.reason],
        "detail": rejection.detail,
        "problem": row["prompt"][-1]["content"],
        "gold": row["reward_model"]["ground_truth"],
        "verdict": "correct",
        "response": excerpt(target := "\n".join(message["content"] for message in row["target"])),
        "response_chars": len(target),
    }


def excerpt(response: str) -> str:
    """``response`` as a file of rejected traces keeps it: valid Unicode, the middle of a long one left out."""
    return printable(shorten(response, LONGEST_RESPONSE), 2 * LONGEST_RESPONSE) or ""


def printable(text: str | None, longest: int) -> str | None:
    """``text`` cut, and made valid Unicode without NUL."""
    return None if text is None else text[:longest].encode("utf-8", "replace").decode().replace("\0", "\ufffd")
