"""Every reason for which a trace is refused, in the order in which they are looked for, and the cheap ones' rules.

A trace is refused for the first reason that holds. Contamination comes before all judgements of quality, so that a
set made of benchmark problems says so. Thresholds are in `PrepareConfig`.
"""

import re
import zlib
from collections.abc import Mapping
from types import MappingProxyType

from training.targets.config import PrepareConfig
from training.targets.traces import Fault, Trace

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
        "no_answer": "nothing after the thoughts",
        "empty_reasoning": "no thoughts",
        "chat_tokens": "chat-template tokens inside the text",
        "no_box": "no boxed answer after the thoughts",
        "loop": "repeats itself (compresses below min_compression_ratio)",
        "foreign_script": "other scripts or replacement characters",
        "gold_unparsed": "the gold answer is not understood",
        "wrong": "the answer is not the gold answer",
        "verify_timeout": "comparing the answer took too long",
        "verify_error": "the answer could not be compared",
        "prompt_too_long": "prompt over max_prompt_tokens",
        "target_too_long": "target over max_target_tokens",
        "near_duplicate": "the problem is nearly the same as a kept one",
        "surplus": "the problem has enough traces already",
    }
)

FIGURE = re.compile(r"\[asy\]|!\[[^\]]*\]\(|\\includegraphics|<img\b|https?://|www\.\w")
CHOICE = re.compile(r"\\?\(?\s*(?:\\(?:text|textbf|mathrm)\{\s*)?\(?([A-E])\)?\s*\}?\s*\\?\)?[.:]?")
OPTIONS = re.compile(r"(?:\(|\\text(?:bf|rm)?\{\s*\(?|\n\s*)([A-E])\s*[).:]")
PROOF = re.compile(r"^\W*(?:prove|show)\s+that\b|\bprove (?:that|the following|this)\b", re.IGNORECASE)
PROOF_GOLDS = frozenset({"proof", "see proof", "not found", "n/a", "none", "omitted"})
# Scripts that a mathematical text in English does not use, and the replacement character. Greek and symbols stay.
FOREIGN = re.compile(
    "[\u0400-\u052f\u0530-\u058f\u0590-\u06ff\u0700-\u0e7f\u0e80-\u10ff\u1100-\u11ff\u1200-\u1cff"
    "\u2e80-\u2fdf\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\uabff\uac00-\ud7af"
    "\uf900-\ufaff\ufb1d-\ufdff\ufe70-\ufeff\ufffd\U00020000-\U0003ffff]"
)


def unreadable(trace: Trace, config: PrepareConfig) -> Fault | None:
    """Texts that must not reach any regular expression, tokenizer or file: too large, or no valid Unicode."""
    if trace.fault is not None:
        return trace.fault
    for name, text in (
        ("problem", trace.problem),
        ("gold", trace.gold),
        ("response", trace.response),
        ("system", trace.system),
    ):
        if text is None:
            continue
        if len(text) > config.max_text_bytes:
            return Fault("too_large", f"{name}: {len(text)} characters (limit {config.max_text_bytes} bytes)")
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            return Fault("bad_text", f"{name}: lone surrogate at character {error.start}")
        if size > config.max_text_bytes:
            return Fault("too_large", f"{name}: {size} bytes (limit {config.max_text_bytes})")
        if "\0" in text:
            return Fault("bad_text", f"{name}: NUL at character {text.index(chr(0))}")
    return None


def unsuitable_problem(problem: str, gold: str, config: PrepareConfig) -> Fault | None:
    """Problems that text alone cannot state or one boxed answer cannot verify."""
    if config.refuse_figures and (found := FIGURE.search(problem)):
        return Fault("figure", f"{found.group()!r} in the problem")
    if config.refuse_choices and CHOICE.fullmatch(gold.strip()) and len(set(OPTIONS.findall(problem))) >= 2:
        return Fault("choice_gold", f"gold {gold.strip()!r} among options")
    if gold.strip().lower() in PROOF_GOLDS:
        return Fault("proof", f"gold {gold.strip()!r}")
    if found := PROOF.search(problem):
        return Fault("proof", f"{found.group()!r} in the problem")
    return None


def unsuitable_text(target: str, config: PrepareConfig) -> Fault | None:
    """Targets that loop or leave the language."""
    if len(target) >= config.compression_min_chars:
        ratio = compression_ratio(target)
        if ratio < config.min_compression_ratio:
            return Fault("loop", f"compresses to {ratio:.3f} (limit {config.min_compression_ratio})")
    if not target.isascii():
        foreign = FOREIGN.findall(target)
        if len(foreign) > config.max_foreign_share * len(target):
            shown = "".join(dict.fromkeys(foreign))[:12]
            return Fault("foreign_script", f"{len(foreign)} of {len(target)} characters: {shown}")
    return None


def compression_ratio(text: str) -> float:
    """zlib size / size in bytes; 1.0 for an empty text. Prose and mathematics lie at 0.25 to 0.45, loops under 0.1."""
    data = text.encode()
    return len(zlib.compress(data, 6)) / len(data) if data else 1.0
