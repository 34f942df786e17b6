"""The list of all filters, in the order in which they apply.

To add a filter, write its rule in `targets.filter.filter_rules` and add an entry here. The tables of the UI and
``docs/targets.md`` follow. A trace is counted under the first reason that applies; its row names all of them.
Contamination comes before all questions of quality, so that a set made of benchmark problems says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial

from core.errors import InputError
from core.plugins.user_code import UserFunctionError, check_function, function_name, load_function, named_in_errors
from targets.filter import filter_rules
from targets.filter.context import FilterContext
from targets.trace import Rejection, Trace


class Stage(StrEnum):
    """When a filter runs. ANSWER, MEANING and LENGTH take long: they are skipped for a trace that is rejected already.

    The results up to LENGTH are cached, but not what `targets.select` makes of them.
    """

    READ = "read"  # the row of the source
    PROBLEM = "problem"  # problem and gold answer
    RESPONSE = "response"  # taken apart into thoughts and conclusion
    TARGET = "target"  # the text that the policy would learn
    ANSWER = "answer"  # compared with the gold answer
    MEANING = "meaning"  # the problem beside benchmark problems, as an embedding model compares them
    LENGTH = "length"  # prompt and target in tokens
    SELECT = "select"  # beside the other traces


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
    rule: Callable[[Trace, FilterContext], str | None] | None = None


FILTERS: tuple[Filter, ...] = (
    Filter("unreadable", "the line is not JSON, or has other columns than the header", Stage.READ),
    Filter("wrong_type", "a value is not of the expected type", Stage.READ),
    Filter("no_problem", "no problem", Stage.READ),
    Filter("no_gold", "no gold answer", Stage.READ),
    Filter("no_response", "no response", Stage.READ),
    Filter("no_reasoning", "the column of thoughts is empty", Stage.READ),
    Filter("several_turns", "a chat of several turns, or one that calls tools", Stage.READ),
    Filter("bad_text", "NUL, lone surrogates or bytes that are not UTF-8", Stage.READ),
    Filter("too_large", "a text over max_text_bytes, or more log-probabilities than max_target_tokens", Stage.READ),
    Filter("contaminated", "the problem overlaps with a benchmark", Stage.PROBLEM, filter_rules.contaminated),
    Filter("figure", "the problem needs a figure or a link", Stage.PROBLEM, filter_rules.figure),
    Filter(
        "choice_gold",
        "the gold answer is an option letter, and the verifier is math",
        Stage.PROBLEM,
        filter_rules.choice_gold,
    ),
    Filter("proof", "the problem asks for a proof, or the gold answer is one", Stage.PROBLEM, filter_rules.proof),
    Filter("refusal", "the model declines to answer", Stage.RESPONSE, filter_rules.refusal),
    Filter("no_think", "no marker separates thoughts from the answer", Stage.RESPONSE),
    Filter("unclosed", "a section never closes: the generation was cut", Stage.RESPONSE),
    Filter("repeated_markers", "markers twice, out of order, or text outside them", Stage.RESPONSE),
    Filter("no_answer", "no answer after the thoughts", Stage.RESPONSE),
    Filter("empty_reasoning", "no thoughts", Stage.RESPONSE),
    Filter("chat_tokens", "chat-template tokens inside the text", Stage.RESPONSE),
    Filter("double_escaped", "LaTeX commands with two backslashes", Stage.TARGET, filter_rules.double_escaped),
    Filter("no_box", "no boxed answer after the thoughts", Stage.TARGET, filter_rules.no_box),
    Filter("loop", "repeats itself (compresses below min_compression_ratio)", Stage.TARGET, filter_rules.loop),
    Filter("ngram_loop", "a run of 16 words occurs max_repeats times", Stage.TARGET, filter_rules.ngram_loop),
    Filter("line_loop", "a line occurs max_repeats times", Stage.TARGET, filter_rules.line_loop),
    Filter("foreign_script", "other scripts or replacement characters", Stage.TARGET, filter_rules.foreign_script),
    Filter("language", "another language than those of the setting languages", Stage.TARGET, filter_rules.language),
    Filter("gold_unparsed", "the verifier does not understand the gold answer", Stage.ANSWER),
    Filter("wrong", "the answer is not the gold answer", Stage.ANSWER),
    Filter("verify_timeout", "comparing the answer took too long", Stage.ANSWER),
    Filter("verify_error", "the answer could not be compared", Stage.ANSWER),
    Filter("paraphrased_benchmark", "the problem has the meaning of a benchmark problem", Stage.MEANING),
    Filter("prompt_too_long", "prompt over max_prompt_tokens", Stage.LENGTH),
    Filter("target_too_long", "target over max_target_tokens", Stage.LENGTH),
    Filter("no_log_probs", "no log-probabilities of its tokens", Stage.LENGTH),
    Filter("pass_rate", "the base model solves the problem too rarely or too often", Stage.SELECT),
    Filter("review", "a reviewer refused it", Stage.SELECT),
    Filter("ledger", "an earlier training gave it one of the verdicts of ledger_drop", Stage.SELECT),
    Filter("near_duplicate", "the problem is nearly the same as a kept one", Stage.SELECT),
    Filter("semantic_duplicate", "the problem has the meaning of a kept one", Stage.SELECT),
    Filter("too_many_per_problem", "the problem has enough traces already", Stage.SELECT),
    Filter("over_source_cap", "more than the cap or the weight of its source allows: not drawn", Stage.SELECT),
    Filter("over_domain_cap", "more than domain_caps allows: not drawn", Stage.SELECT),
    Filter("over_token_budget", "more tokens than token_budget allows: not drawn", Stage.SELECT),
    Filter("over_max_rows", "more rows than max_rows: not drawn", Stage.SELECT),
)


@cache
def filters_with(paths: tuple[str, ...]) -> tuple[Filter, ...]:
    """`FILTERS`, and before their first comparison of answers those of the user's at ``paths``.

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


def _own_rule(path: str, trace: Trace, context: FilterContext) -> str | None:
    try:
        detail = named_in_errors(path)(trace)
    except UserFunctionError as error:
        raise InputError(f"filters: {error}, for trace {trace.id}") from error
    if detail is not None and not isinstance(detail, str):
        raise InputError(
            f"filters: {path} returned {detail!r:.80} for trace {trace.id}; expected a text that says what is wrong, "
            "or None"
        )
    return detail


def rejections(stage: Stage, trace: Trace, context: FilterContext) -> Iterator[Rejection]:
    """Apply the rules of ``stage`` to a trace, and return the reasons against it."""
    for entry in filters_with(tuple(context.config.filters)):
        if entry.stage is stage and entry.rule and (detail := entry.rule(trace, context)) is not None:
            yield Rejection(entry.name, detail)
