"""The rules of the filters: each returns what is wrong with a trace, with the evidence, or None.

Their names and order are in `targets.filter.filters`; thresholds are in `PrepareConfig`. A rule changes nothing.
"""

from collections import Counter

from core.text.patterns import compile_full_match, compile_pattern, compile_quick_pattern
from targets.filter.context import FilterContext
from targets.filter.language import identify_language
from targets.filter.text_properties import compression_ratio
from targets.read.response_format import BOX
from targets.trace import Trace

FIGURE = compile_pattern(r"\[asy\]|!\[[^\]]*\]\(|\\includegraphics|<img\b|https?://|www\.\w")
QUOTED = 60  # characters of a text in a detail
CHOICE = compile_full_match(r"\\?\(?\s*(?:\\(?:text|textbf|mathrm)\{\s*)?\(?([A-E])\)?\s*+\}?\s*+\\?\)?[.:]?")
OPTIONS = compile_pattern(r"(?:\(|\\text(?:bf|rm)?\{\s*\(?|\n\s*)([A-E])\s*[).:]")
PROOF = compile_pattern(r"(?i)^\W*(?:prove|show)\s+that\b|\bprove (?:that|the following|this)\b")
PROOF_GOLDS = frozenset({"proof", "see proof", "not found", "notfound", "n/a", "none", "omitted"})
PROVED = compile_pattern(
    r"(?i)\bq\.?e\.?d\b|\\blacksquare|\bproof (?:below|above|omitted|complete)|\bas (?:required|desired)\b"
)
# What a model says instead of answering. Only the beginning of an answer is searched: thoughts may doubt.
REFUSAL = compile_pattern(
    r"(?i)\W*(?:I(?:'m| am) (?:really |very |so )?sorry\b"
    r"|(?:sorry|unfortunately|apologies),? (?:but )?I (?:can(?:no|')t|am unable)"
    r"|I (?:can(?:no|')t|am (?:not able|unable) to|won't) (?:help|assist|answer|solve|provide|complete|fulfil|comply)"
    r"|As an? (?:AI|artificial intelligence|large language model|language model)\b)"
)
# Two backslashes (or four, …) before a name that no word or variable after a line break has. A search looks for the two
# first, which few texts have: what may not precede them comes after them.
DOUBLE_ESCAPED = compile_quick_pattern(
    r"\\\\(?<!\\\\\\)(?:\\\\)*(?:(?:boxed|fbox|[dtc]?frac|sqrt|operatorname|overline|binom)(?![a-zA-Z])"
    r"|(?:text|begin|end|math[a-z]{2,4})\s?{|(?:left|right)\s?[(\[{|]"
    r"|(?:cdot|ldots|leq|geq|neq|infty|circ|pi|alpha|beta|gamma|theta|lambda|sin|cos|tan|log|ln)(?![a-zA-Z])"
    r"|\([^()\n]{1,200}\\\\\))"
)
RUN = 16  # words: shorter runs recur in honest work ("so the value of x is equal to")
SHORTEST_LINE = 10  # characters: "Wait," and "Step 2" do too
# Scripts that a mathematical text in English does not use, and the replacement character. Greek and symbols stay.
FOREIGN = compile_quick_pattern(
    "[\u0400-\u052f\u0530-\u058f\u0590-\u06ff\u0700-\u0e7f\u0e80-\u10ff\u1100-\u11ff\u1200-\u1cff"
    "\u2e80-\u2fdf\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\uabff\uac00-\ud7af"
    "\uf900-\ufaff\ufb1d-\ufdff\ufe70-\ufeff\ufffd\U00020000-\U0003ffff]"
)


def contaminated(trace: Trace, context: FilterContext) -> str | None:
    """Reject benchmark problems: equal, nearly equal, or with half of their text in shared runs of eight words."""
    match = context.benchmark_match(trace.problem or "")
    if match is None:
        return None
    return f"{match.benchmark}/{match.id}: {match.ratio:.0f}% similar, {match.coverage:.0%} covered by runs of 8 words"


def figure(trace: Trace, context: FilterContext) -> str | None:
    """Reject problems that the text alone does not state."""
    match = FIGURE.search(trace.problem or "") if context.config.reject_figures else None
    return f"{match.group()!r} in the problem" if match else None


def choice_gold(trace: Trace, context: FilterContext) -> str | None:
    """Reject gold answers that are one of the options that the problem lists."""
    gold = (trace.gold or "").strip()
    if not context.config.reject_choices or not context.is_mathematics(trace) or not CHOICE(gold):
        return None
    return f"gold {gold!r} among options" if len(set(OPTIONS.findall(trace.problem or ""))) >= 2 else None


def proof(trace: Trace, context: FilterContext) -> str | None:
    """Reject problems whose solution a single boxed answer cannot show."""
    if not context.is_mathematics(trace):
        return None
    gold = (trace.gold or "").strip()
    if gold.lower().rstrip(".") in PROOF_GOLDS or PROVED.search(gold):
        return f"gold {gold[:QUOTED]!r}"
    match = PROOF.search(trace.problem or "")
    return f"{match.group()!r} in the problem" if match else None


def refusal(trace: Trace, context: FilterContext) -> str | None:
    """Reject answers, and responses without markers, that begin by declining."""
    match = REFUSAL.match(trace.conclusion)
    return f"{match.group().strip()!r}" if match else None


def double_escaped(trace: Trace, context: FilterContext) -> str | None:
    r"""LaTeX whose backslashes were escaped once too often: ``\\frac{1}{2}`` is a line break and the letters "frac"."""
    for name in ("problem", "gold", "target"):
        if match := DOUBLE_ESCAPED.search(getattr(trace, name) or ""):
            return f"{match.group()[:QUOTED]!r} in the {name}: read the source's texts as JSON once more"
    return None


def no_box(trace: Trace, context: FilterContext) -> str | None:
    if not context.is_boxed(trace) or BOX.search(trace.conclusion):
        return None
    return "nothing boxed after the thoughts"


def loop(trace: Trace, context: FilterContext) -> str | None:
    if len(trace.target) < context.config.compression_min_chars:
        return None
    ratio, limit = compression_ratio(trace.target), context.config.min_compression_ratio
    return f"compresses to {ratio:.3f} (limit {limit})" if ratio < limit else None


def ngram_loop(trace: Trace, context: FilterContext) -> str | None:
    run, times = repeated_run(trace.target, context.config.max_repeats)
    return f"{times} times {run[:QUOTED]!r} (limit {context.config.max_repeats})" if run else None


def line_loop(trace: Trace, context: FilterContext) -> str | None:
    line, times = repeated_line(trace.target)
    limit = context.config.max_repeats
    return f"{times} times {line[:QUOTED]!r} (limit {limit})" if times >= limit else None


def foreign_script(trace: Trace, context: FilterContext) -> str | None:
    """Reject texts with more than ``max_foreign_share`` of characters from scripts other than English mathematics."""
    foreign = [] if trace.target.isascii() else FOREIGN.findall(trace.target)
    if len(foreign) <= context.config.max_foreign_share * len(trace.target):
        return None
    return f"{len(foreign)} of {len(trace.target)} characters: {''.join(dict.fromkeys(foreign))[:12]}"


def language(trace: Trace, context: FilterContext) -> str | None:
    """Reject targets in other languages than ``languages``."""
    expected = context.config.languages
    identified = identify_language(trace.target) if expected else None
    return None if identified is None or identified in expected else f"{identified} (languages: {', '.join(expected)})"


def repeated_run(text: str, limit: int) -> tuple[str, int]:
    """The most frequent run of `RUN` words and how often it occurs, if that is ``limit`` times; else ("", 0).

    Only a stretch of words that each occur so often can hold such a run: most texts have none.
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
    """The most frequent line of at least `SHORTEST_LINE` characters, and how often it occurs; else ("", 0)."""
    lines = Counter(line for line in text.split("\n") if len(line) >= SHORTEST_LINE)
    return lines.most_common(1)[0] if lines else ("", 0)
