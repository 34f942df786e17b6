"""The filters, in the order in which they apply, and their rules.

To add a filter, write its rule and add an entry to `FILTERS`. The tables of the UI and ``docs/filters.md`` follow. A
rule returns what is wrong with a trace, with the evidence, or None, and changes nothing; thresholds are in
`TargetSettings`. A trace is counted under the first reason that applies; its row names all of them. Contamination comes
before all questions of quality, so that a set made of benchmark problems says so.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial

from core.errors import InputError
from core.plugins.user_code import UserFunctionError, check_function, function_name, load_function, named_in_errors
from core.text.patterns import compile_full_match, compile_pattern, compile_quick_pattern
from targets.filter.text_properties import (
    FEWEST_REPLACED,
    compression_ratio,
    count_replaced,
    find_misread,
    identify_language,
)
from targets.filter.worker import Worker
from targets.read.response_format import BOX, TURN_TOKENS
from targets.trace import Rejection, Trace

FIGURE = compile_pattern(
    r"\[asy\]|!\[[^\]]*\]\(|\\includegraphics|<img\b|https?://|www\.\w"
    # The place of a picture, video or sound in a prompt: <image>, <|image_pad|>, <image 1>, …
    r"|(?i:<\|?(?:start_of_)?(?:image|vision|video|audio)(?:[ _]?\d+|_\w{1,20}|here)?\|?>|\[IMG\])"
)
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
FOR_FILTERS = ("problem", "gold", "target", "conclusion", "metadata")  # what the user's filters read of a trace
RUN = 16  # words: shorter runs recur in honest work ("so the value of x is equal to")
SHORTEST_LINE = 10  # characters: "Wait," and "Step 2" do too
# Scripts that a mathematical text in English does not use, and the replacement character. Greek and symbols stay.
FOREIGN = compile_quick_pattern(
    "[\u0400-\u052f\u0530-\u058f\u0590-\u06ff\u0700-\u0e7f\u0e80-\u10ff\u1100-\u11ff\u1200-\u1cff"
    "\u2e80-\u2fdf\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\uabff\uac00-\ud7af"
    "\uf900-\ufaff\ufb1d-\ufdff\ufe70-\ufeff\ufffd\U00020000-\U0003ffff]"
)


class Stage(StrEnum):
    """When a filter runs. ANSWER and LENGTH take long: they are skipped for a trace that is rejected already.

    The results up to LENGTH are cached, but not what `targets.select` makes of them.
    """

    READ = "read"  # the row of the source
    PROBLEM = "problem"  # problem and gold answer
    RESPONSE = "response"  # taken apart into thoughts and conclusion
    TARGET = "target"  # the text that the policy would learn
    ANSWER = "answer"  # compared with the gold answer
    LENGTH = "length"  # prompt and target in tokens
    SELECT = "select"  # compared with the other traces


@dataclass(frozen=True)
class Filter:
    """One reason to reject a trace.

    Args:
        name: the reason in ``rejected.parquet`` and in the counts.
        title: what it means, for people.
        stage: when it applies.
        rule: what is wrong with a trace, as a detail that cites the numbers or the text behind it; None if nothing is.
            Without a rule, the code of the stage gives this reason itself.
    """

    name: str
    title: str
    stage: Stage
    rule: Callable[[Trace, Worker], str | None] | None = None


def contaminated(trace: Trace, worker: Worker) -> str | None:
    """Reject benchmark problems: equal, nearly equal, or with half of their text in shared runs of eight words."""
    match = worker.benchmark_match(trace.problem or "")
    if match is None or match.held_out:
        return None
    return f"{match.benchmark}/{match.id}: {match.ratio:.0f}% similar, {match.coverage:.0%} covered by runs of 8 words"


def held_for_benchmark(trace: Trace, worker: Worker) -> str | None:
    """Reject questions that a benchmark holds out of the same traces."""
    match = worker.benchmark_match(trace.problem or "")
    return f"{match.benchmark}/{match.id}" if match and match.held_out else None


def figure(trace: Trace, worker: Worker) -> str | None:
    """Reject problems that the text alone does not state."""
    match = FIGURE.search(trace.problem or "") if worker.config.reject_figures else None
    return f"{match.group()!r} in the problem" if match else None


def choice_gold(trace: Trace, worker: Worker) -> str | None:
    """Reject gold answers that are one of the options that the problem lists."""
    gold = (trace.gold or "").strip()
    if not worker.config.reject_choices or not worker.is_mathematics(trace) or not CHOICE(gold):
        return None
    return f"gold {gold!r} among options" if len(set(OPTIONS.findall(trace.problem or ""))) >= 2 else None


def proof(trace: Trace, worker: Worker) -> str | None:
    """Reject problems that a single boxed answer cannot solve."""
    if not worker.is_mathematics(trace):
        return None
    gold = (trace.gold or "").strip()
    if gold.lower().rstrip(".") in PROOF_GOLDS or PROVED.search(gold):
        return f"gold {gold[:QUOTED]!r}"
    match = PROOF.search(trace.problem or "")
    return f"{match.group()!r} in the problem" if match else None


def refusal(trace: Trace, worker: Worker) -> str | None:
    """Reject answers, and responses without markers, that begin by declining."""
    match = REFUSAL.match(trace.conclusion)
    return f"{match.group().strip()!r}" if match else None


def chat_tokens(trace: Trace, worker: Worker) -> str | None:
    """Reject problems that hold the tokens between turns. Markers in a target are found when it is split."""
    match = TURN_TOKENS.search(trace.problem or "")
    return f"{match.group()} in the problem" if match else None


def double_escaped(trace: Trace, worker: Worker) -> str | None:
    r"""LaTeX with backslashes escaped once too often: ``\\frac{1}{2}`` is a line break and the letters "frac"."""
    # A call of a tool is JSON, in which backslashes are escaped: of an episode, the last turn counts.
    for name, text in {"problem": trace.problem, "gold": trace.gold, "target": trace.final}.items():
        if match := DOUBLE_ESCAPED.search(text or ""):
            return f"{match.group()[:QUOTED]!r} in the {name}: read the source's texts as JSON once more"
    return None


def damaged_encoding(trace: Trace, worker: Worker) -> str | None:
    """Reject UTF-8 that was read as Latin-1, and mathematics with letters replaced by question marks."""
    texts = {name: getattr(trace, name) or "" for name in ("problem", "gold", "target")}
    for name, text in texts.items():
        if misread := find_misread(text):
            return f"{misread[0]!r} for {misread[1]!r} in the {name}: read the source as UTF-8"
    replaced = sum(map(count_replaced, texts.values())) if worker.is_mathematics(trace) else 0
    return f"'?' inside of {replaced} words" if replaced >= FEWEST_REPLACED else None


def no_box(trace: Trace, worker: Worker) -> str | None:
    if not worker.is_boxed(trace) or BOX.search(trace.conclusion):
        return None
    return "nothing boxed after the thoughts"


def loop(trace: Trace, worker: Worker) -> str | None:
    if len(trace.target) < worker.config.compression_min_chars:
        return None
    ratio, limit = compression_ratio(trace.target), worker.config.min_compression_ratio
    return f"compresses to {ratio:.3f} (limit {limit})" if ratio < limit else None


def ngram_loop(trace: Trace, worker: Worker) -> str | None:
    run, times = repeated_run(trace.target, worker.config.max_repeats)
    return f"{times} times {run[:QUOTED]!r} (limit {worker.config.max_repeats})" if run else None


def line_loop(trace: Trace, worker: Worker) -> str | None:
    line, times = repeated_line(trace.target)
    limit = worker.config.max_repeats
    return f"{times} times {line[:QUOTED]!r} (limit {limit})" if times >= limit else None


def foreign_script(trace: Trace, worker: Worker) -> str | None:
    """Reject texts with more than ``max_foreign_share`` of characters from scripts other than English mathematics."""
    foreign = [] if trace.target.isascii() else FOREIGN.findall(trace.target)
    if len(foreign) <= worker.config.max_foreign_share * len(trace.target):
        return None
    return f"{len(foreign)} of {len(trace.target)} characters: {''.join(dict.fromkeys(foreign))[:12]}"


def language(trace: Trace, worker: Worker) -> str | None:
    """Reject targets in other languages than ``languages``."""
    expected = worker.config.languages
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


FILTERS: tuple[Filter, ...] = (
    Filter("unreadable", "the line is not JSON, or has other columns than the header", Stage.READ),
    Filter("wrong_type", "a value is not of the expected type", Stage.READ),
    Filter("no_problem", "no problem", Stage.READ),
    Filter("no_gold", "no gold answer", Stage.READ),
    Filter("no_response", "no response", Stage.READ),
    Filter("no_reasoning", "the column of thoughts is empty", Stage.READ),
    Filter("several_turns", "a chat of several turns, or one that calls tools without the section tools", Stage.READ),
    Filter("bad_text", "NUL, lone surrogates or bytes that are not UTF-8", Stage.READ),
    Filter("too_large", "a text over max_text_bytes, or more log-probabilities than max_target_tokens", Stage.READ),
    Filter("held_for_benchmark", "a benchmark holds the question out", Stage.PROBLEM, held_for_benchmark),
    Filter("contaminated", "the problem overlaps with a benchmark", Stage.PROBLEM, contaminated),
    Filter("figure", "the problem needs a figure or a link", Stage.PROBLEM, figure),
    Filter(
        "choice_gold",
        "the gold answer is an option letter, and the verifier is math",
        Stage.PROBLEM,
        choice_gold,
    ),
    Filter("proof", "the problem asks for a proof, or the gold answer is one", Stage.PROBLEM, proof),
    Filter("refusal", "the model declines to answer", Stage.RESPONSE, refusal),
    Filter("no_think", "no marker separates thoughts from the answer", Stage.RESPONSE),
    Filter("unclosed", "a section never closes: the generation was cut", Stage.RESPONSE),
    Filter("repeated_markers", "markers twice, out of order, or text outside them", Stage.RESPONSE),
    Filter("no_answer", "no answer after the thoughts", Stage.RESPONSE),
    Filter("empty_reasoning", "no thoughts", Stage.RESPONSE),
    Filter("bad_call", "a call of a tool that is not in the format of calls", Stage.RESPONSE),
    Filter("unknown_tool", "a call of a tool that tools.use does not name", Stage.RESPONSE),
    Filter("unanswered_call", "a call without an observation, or an observation without a call", Stage.RESPONSE),
    Filter("no_final_answer", "an episode that ends with a call, or has more turns than tools.turns", Stage.RESPONSE),
    Filter("chat_tokens", "chat-template tokens inside the text", Stage.RESPONSE, chat_tokens),
    Filter("double_escaped", "LaTeX commands with two backslashes", Stage.TARGET, double_escaped),
    Filter(
        "damaged_encoding",
        "UTF-8 that was read as Latin-1, or letters replaced by question marks",
        Stage.TARGET,
        damaged_encoding,
    ),
    Filter("no_box", "no boxed answer after the thoughts", Stage.TARGET, no_box),
    Filter("loop", "repeats itself (compresses below min_compression_ratio)", Stage.TARGET, loop),
    Filter("ngram_loop", "a run of 16 words occurs max_repeats times", Stage.TARGET, ngram_loop),
    Filter("line_loop", "a line occurs max_repeats times", Stage.TARGET, line_loop),
    Filter("foreign_script", "other scripts or replacement characters", Stage.TARGET, foreign_script),
    Filter("language", "a language that the setting languages does not name", Stage.TARGET, language),
    Filter("gold_unparsed", "the verifier does not understand the gold answer", Stage.ANSWER),
    Filter("wrong", "the answer is not the gold answer", Stage.ANSWER),
    Filter("verify_timeout", "comparing the answer took too long", Stage.ANSWER),
    Filter("verify_error", "the answer could not be compared", Stage.ANSWER),
    Filter("prompt_too_long", "prompt over max_prompt_tokens", Stage.LENGTH),
    Filter("target_too_long", "target over max_target_tokens", Stage.LENGTH),
    Filter("no_log_probs", "no log-probabilities of its tokens", Stage.LENGTH),
    Filter("tool_failed", "a tool of the episode could not run", Stage.LENGTH),
    Filter("observation_differs", "a tool says something else than the episode has", Stage.LENGTH),
    Filter("pass_rate", "the base model solves the problem too rarely or too often", Stage.SELECT),
    Filter("review", "a reviewer refused it", Stage.SELECT),
    Filter("ledger", "an earlier training gave it one of the verdicts of ledger_drop", Stage.SELECT),
    Filter("near_duplicate", "the problem is nearly the same as an accepted one", Stage.SELECT),
    Filter("too_many_per_problem", "the problem has enough traces already", Stage.SELECT),
    Filter("over_source_cap", "more than the cap or the weight of its source allows: not drawn", Stage.SELECT),
    Filter("over_domain_cap", "more than domain_caps allows: not drawn", Stage.SELECT),
    Filter("over_token_budget", "more tokens than token_budget allows: not drawn", Stage.SELECT),
    Filter("over_max_rows", "more rows than max_rows: not drawn", Stage.SELECT),
)


@cache
def filters_with(paths: tuple[str, ...]) -> tuple[Filter, ...]:
    """`FILTERS`, and before their first comparison of answers the user's at ``paths``.

    These are functions of a `Trace` that return what is wrong with it, or None.

    Raises:
        InputError: one cannot be imported, takes other arguments, or has the name of a filter of `FILTERS`.
    """
    own: list[Filter] = []
    for path in paths:
        name = function_name(path)
        if name in {entry.name for entry in FILTERS}:
            raise InputError(f"filters: {path}: {name} is the name of a filter of the project; rename the function")
        try:
            check_function(path, ["trace"])
        except InputError as error:
            raise InputError(f"filters: {error}") from error
        title = (load_function(path).__doc__ or "a filter of yours").strip().partition("\n")[0].rstrip(".")
        own.append(Filter(name, title, Stage.TARGET, partial(_own_rule, path)))
    at = next(number for number, entry in enumerate(FILTERS) if entry.stage is Stage.ANSWER)
    return (*FILTERS[:at], *own, *FILTERS[at:])


def _own_rule(path: str, trace: Trace, worker: Worker) -> str | None:
    shown = copy(trace)  # whatever the filter does to it
    shown.reasons, shown.metadata, shown.fields = [*trace.reasons], {**trace.metadata}, deepcopy(trace.fields)
    try:
        detail = named_in_errors(path)(shown)
    except UserFunctionError as error:
        named = f"; a trace has {', '.join(FOR_FILTERS)}" if isinstance(error.__cause__, AttributeError) else ""
        raise InputError(f"filters: {error}, for trace {trace.id}{named}") from error
    if detail is not None and not (isinstance(detail, str) and detail.strip()):
        raise InputError(
            f"filters: {path} returned {detail!r:.80} for trace {trace.id}; expected a text that says what is wrong, "
            "or None"
        )
    return detail


def rejections(stage: Stage, trace: Trace, worker: Worker) -> Iterator[Rejection]:
    """Apply the rules of ``stage`` to a trace, and return the reasons against it."""
    for entry in filters_with(tuple(worker.config.filters)):
        if entry.stage is stage and entry.rule and (detail := entry.rule(trace, worker)) is not None:
            yield Rejection(entry.name, detail)
