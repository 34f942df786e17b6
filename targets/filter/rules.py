"""Every reason for which a trace is refused, in the order in which they are looked for, and the cheap ones' rules.

The funnel counts a trace under the first reason that holds; its row names all that were found. What costs time, the
comparison of answers and the exact lengths, is left out for traces that are refused already. Contamination comes before
all judgements of quality, so that a set made of benchmark problems says so. Thresholds are in `PrepareConfig`.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from targets.config import PrepareConfig
from targets.read.traces import Fault

# name -> what it means; the order is that of the funnel
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "unreadable": "the line is not JSON",
        "wrong_type": "a value is not of the expected type",
        "no_problem": "no problem",
        "no_gold": "no gold answer",
        "no_response": "no response",
        "no_reasoning": "the column of thoughts is empty",
        "bad_text": "NUL, lone surrogates or bytes that are not UTF-8",
        "too_large": "a text over max_text_bytes",
        "contaminated": "the problem overlaps with a benchmark",
        "figure": "the problem needs a figure or a link",
        "choice_gold": "the gold answer is an option letter",
        "proof": "the problem asks for a proof, or the gold answer is one",
        "no_think": "no marker separates thoughts from the answer",
        "unclosed": "a section never closes: the generation was cut",
        "repeated_markers": "markers twice, out of order, or text outside them",
        "refusal": "the model declines to answer",
        "no_answer": "nothing after the thoughts",
        "empty_reasoning": "no thoughts",
        "chat_tokens": "chat-template tokens inside the text",
        "no_box": "no boxed answer after the thoughts",
        "loop": "repeats itself (compresses below min_compression_ratio)",
        "ngram_loop": "a run of 16 words comes max_repeats times",
        "line_loop": "a line comes max_repeats times",
        "foreign_script": "other scripts or replacement characters",
        "gold_unparsed": "the gold answer is not understood",
        "wrong": "the answer is not the gold answer",
        "verify_timeout": "comparing the answer took too long",
        "verify_error": "the answer could not be compared",
        "prompt_too_long": "prompt over max_prompt_tokens",
        "target_too_long": "target over max_target_tokens",
        "near_duplicate": "the problem is nearly the same as a kept one",
        "surplus": "the problem has enough traces already",
        "over_max_rows": "more rows than max_rows: not drawn",
    }
)

FIGURE = re.compile(r"\[asy\]|!\[[^\]]*\]\(|\\includegraphics|<img\b|https?://|www\.\w")
FAR = 60  # characters of a text shown in a detail
CHOICE = re.compile(r"\\?\(?\s*(?:\\(?:text|textbf|mathrm)\{\s*)?\(?([A-E])\)?\s*\}?\s*\\?\)?[.:]?")
OPTIONS = re.compile(r"(?:\(|\\text(?:bf|rm)?\{\s*\(?|\n\s*)([A-E])\s*[).:]")
PROOF = re.compile(r"^\W*(?:prove|show)\s+that\b|\bprove (?:that|the following|this)\b", re.IGNORECASE)
PROOF_GOLDS = frozenset({"proof", "see proof", "not found", "n/a", "none", "omitted"})
PROVED = re.compile(
    r"\bq\.?e\.?d\b|\\blacksquare|\bproof (?:below|above|omitted|complete)|\bas (?:required|desired)\b", re.I
)
# What a model says instead of answering; only looked for where an answer begins, thoughts may doubt as they like.
REFUSAL = re.compile(
    r"\W*(?:I(?:'m| am) (?:really |very |so )?sorry\b"
    r"|(?:sorry|unfortunately|apologies),? (?:but )?I (?:can(?:no|')t|am unable)"
    r"|I (?:can(?:no|')t|am (?:not able|unable) to|won't) (?:help|assist|answer|solve|provide|complete|fulfil|comply)"
    r"|As an? (?:AI|artificial intelligence|large language model|language model)\b)",
    re.IGNORECASE,
)
RUN = 16  # words: shorter runs come back in honest work ("so the value of x is equal to")
SHORTEST_LINE = 10  # characters: "Wait," and "Step 2" do too
# Scripts that a mathematical text in English does not use, and the replacement character. Greek and symbols stay.
FOREIGN = re.compile(
    "[\u0400-\u052f\u0530-\u058f\u0590-\u06ff\u0700-\u0e7f\u0e80-\u10ff\u1100-\u11ff\u1200-\u1cff"
    "\u2e80-\u2fdf\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\uabff\uac00-\ud7af"
    "\uf900-\ufaff\ufb1d-\ufdff\ufe70-\ufeff\ufffd\U00020000-\U0003ffff]"
)


def unsuitable_problem(problem: str, gold: str, config: PrepareConfig) -> Fault | None:
    """Problems that text alone cannot state or one boxed answer cannot verify."""
    if config.refuse_figures and (found := FIGURE.search(problem)):
        return Fault("figure", f"{found.group()!r} in the problem")
    if config.refuse_choices and CHOICE.fullmatch(gold.strip()) and len(set(OPTIONS.findall(problem))) >= 2:
        return Fault("choice_gold", f"gold {gold.strip()!r} among options")
    if gold.strip().lower().rstrip(".") in PROOF_GOLDS or PROVED.search(gold):
        return Fault("proof", f"gold {gold.strip()[:FAR]!r}")
    if found := PROOF.search(problem):
        return Fault("proof", f"{found.group()!r} in the problem")
    return None


def refusal(answer: str) -> Fault | None:
    """An answer part, or a response without markers, that begins by declining."""
    found = REFUSAL.match(answer)
    return Fault("refusal", f"{found.group().strip()!r}") if found else None


def unsuitable_text(target: str, config: PrepareConfig) -> Iterator[Fault]:
    """Why a target loops or leaves the language; nothing if it does neither."""
    if len(target) >= config.compression_min_chars:
        ratio = compression_ratio(target)
        if ratio < config.min_compression_ratio:
            yield Fault("loop", f"compresses to {ratio:.3f} (limit {config.min_compression_ratio})")
    run, times = repeated_run(target, config.max_repeats)
    if run:
        yield Fault("ngram_loop", f"{times} times {run[:FAR]!r} (limit {config.max_repeats})")
    line, times = repeated_line(target)
    if times >= config.max_repeats:
        yield Fault("line_loop", f"{times} times {line[:FAR]!r} (limit {config.max_repeats})")
    if not target.isascii():
        foreign = FOREIGN.findall(target)
        if len(foreign) > config.max_foreign_share * len(target):
            shown = "".join(dict.fromkeys(foreign))[:12]
            yield Fault("foreign_script", f"{len(foreign)} of {len(target)} characters: {shown}")


def repeated_run(text: str, limit: int) -> tuple[str, int]:
    """The run of `RUN` words that comes most often and how often, if that is ``limit`` times; else ("", 0).

    Only stretches of words that each come that often can hold such a run: in most texts there are none.
    """
    words = text.split()
    often = {word for word, times in Counter(words).items() if times >= limit}
    runs: Counter[tuple[str, ...]] = Counter()
    length = 0
    for position, word in enumerate(words if often else ()):
        length = length + 1 if word in often else 0
        if length >= RUN:
            runs[tuple(words[position - RUN + 1 : position + 1])] += 1
    run, times = runs.most_common(1)[0] if runs else ((), 0)
    return (" ".join(run), times) if times >= limit else ("", 0)


def repeated_line(text: str) -> tuple[str, int]:
    """The line of at least `SHORTEST_LINE` characters that comes most often, and how often; ("", 0) without any."""
    lines = Counter(line for line in text.split("\n") if len(line) >= SHORTEST_LINE)
    return lines.most_common(1)[0] if lines else ("", 0)


def compression_ratio(text: str) -> float:
    """zlib size / size in bytes; 1.0 for an empty text. Prose and mathematics lie at 0.25 to 0.45, loops under 0.1."""
    data = text.encode()
    return len(zlib.compress(data, 6)) / len(data) if data else 1.0
