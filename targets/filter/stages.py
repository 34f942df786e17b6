"""Filter a batch of traces, stage by stage.

Nothing here depends on how traces are grouped into batches, so the same function runs in this process, in a pool of
processes and on Ray Data.
"""

from collections.abc import Sequence

from core.model.calls import rewrite_calls
from core.model.episodes import TOOL
from core.model.prompts import messages, must_end_thoughts
from grading.tools.replay import call_problem, differs, problem_of
from grading.tools.tool import Context
from grading.verdict import Verdict
from targets.filter.filters import Stage, rejections
from targets.filter.text_properties import measure
from targets.filter.worker import Worker
from targets.read.response_format import TURN_TOKENS, Parts, parse_response
from targets.select.dedupe import describe
from targets.source_settings import Source
from targets.trace import Rejection, Trace

VERDICTS = {
    Verdict.WRONG: "wrong",
    Verdict.PARTIAL: "wrong",
    Verdict.NO_ANSWER: "no_answer",
    Verdict.NO_THINK_END: "unclosed",
    Verdict.GOLD_UNPARSED: "gold_unparsed",
    Verdict.TIMEOUT: "verify_timeout",
    Verdict.ERROR: "verify_error",
}
EPISODE = "episode"  # response format of a response that calls tools
FAILED = VERDICTS[Verdict.ERROR]
QUOTED = 120  # characters of an answer in a detail


def filter_traces(traces: Sequence[Trace], worker: Worker) -> Sequence[Trace]:
    """``traces``, each with the target it makes, or with the reasons to reject it."""
    for trace in _accepted(traces):
        _filter_texts(trace, worker)
    for trace in _accepted(traces):
        _verify(trace, worker)
    _filter_lengths(_accepted(traces), worker)
    for trace in _accepted(traces):
        _replay(trace, worker)
    for trace in traces:
        if trace.reasons:
            trace.shorten()
        else:
            _describe(trace, worker)
    return traces


def _accepted(traces: Sequence[Trace]) -> list[Trace]:
    return [trace for trace in traces if not trace.reasons]


def _filter_texts(trace: Trace, worker: Worker) -> None:
    """Apply the filters that need neither a comparison of answers nor token counts, and make the target."""
    _reject(Stage.PROBLEM, trace, worker)
    if "contaminated" in trace.reasons and (match := worker.benchmark_match(trace.problem or "")):
        trace.duplicate_of, trace.duplicate_problem = (
            f"{match.benchmark}/{match.id}",
            match.problem,
        )
    if trace.turns:
        _filter_turns(trace, worker)
        return
    split, tag = worker.config.plain_text == "split", worker.reads_answer_tag(trace)
    parts = parse_response(trace.response or "", split_plain=split, answer_tag=tag)
    if isinstance(parts, Parts):
        trace.response_format, trace.target = parts.response_format, parts.target()
    _reject(Stage.RESPONSE, trace, worker)
    if isinstance(parts, Rejection):
        trace.reject(parts)
    else:
        _reject(Stage.TARGET, trace, worker)


def _filter_turns(trace: Trace, worker: Worker) -> None:
    """Apply those filters to an episode, with its calls as the policy writes them."""
    template, tools = worker.lengths.template, worker.tools
    assert trace.turns and tools and template.calls
    problem = call_problem(trace.turns, "hermes", template.tools, template.calls)
    trace.turns = [
        turn if turn["role"] == TOOL else {**turn, "content": rewrite_calls(turn["content"], "hermes", template.calls)}
        for turn in trace.turns
    ]
    trace.target, trace.response_format = (
        "\n".join(turn["content"] for turn in trace.turns),
        EPISODE,
    )
    _reject(Stage.RESPONSE, trace, worker)
    if problem := problem or problem_of(trace.turns, template.calls, template.tools, tools):
        trace.reject(Rejection(*problem))
    written = "\n".join(turn["content"] for turn in trace.turns if turn["role"] != TOOL)
    if token := TURN_TOKENS.search(written):
        trace.reject(Rejection("chat_tokens", f"{token.group()} in a turn"))
    _reject(Stage.TARGET, trace, worker)


def _replay(trace: Trace, worker: Worker) -> None:
    """Make the calls of an episode again: last of all, because that takes longest."""
    template, toolbox = worker.lengths.template, worker.toolbox
    if not trace.turns or not template.calls or not toolbox or not toolbox.settings.replay:
        return
    context = Context(trace.verifier_fields, seed=0)
    if problem := differs(trace.turns, template.calls, template.tools, toolbox, context):
        trace.reject(Rejection(*problem))


def _reject(stage: Stage, trace: Trace, worker: Worker) -> None:
    for rejection in rejections(stage, trace, worker):
        trace.reject(rejection)


def _verify(trace: Trace, worker: Worker) -> None:
    """Compare the answer with the gold answer, using the verifier that also rewards the policy."""
    verdict, text = _compare(trace, worker)
    trace.verdict = verdict
    if verdict == "correct":
        trace.answer = text
    else:
        trace.reject(Rejection(verdict, text))


def _compare(trace: Trace, worker: Worker) -> tuple[str, str]:
    """The verdict, and the answer if it is "correct", or else why not."""
    gold, verifier, mathematics = (
        trace.gold or "",
        worker.verifier(trace),
        worker.is_mathematics(trace),
    )
    fields = trace.verifier_fields
    if not mathematics and (problem := verifier.gold_problem(gold, fields)):
        return "gold_unparsed", f"gold {_quote(gold)}: {problem}"
    thinking = must_end_thoughts(trace.final, is_episode=bool(trace.turns))
    grade = verifier.verify(trace.final, gold, fields=fields, thinking=thinking)
    if not grade.solved:
        detail = f"answer {_quote(grade.extracted)}, gold {_quote(gold)}: {grade.reason}"
        no_box = grade.verdict is Verdict.NO_ANSWER and worker.is_boxed(trace)
        return "no_box" if no_box else VERDICTS[grade.verdict], detail
    if mathematics and verifier.gold_problem(gold, fields):
        # Equal texts are correct, but a reward that cannot read the gold answer would reject every other spelling.
        return "gold_unparsed", f"gold {_quote(gold)} is only comparable as text"
    return "correct", grade.extracted or ""


def _quote(text: str | None) -> str:
    text = text or ""
    return repr(text if len(text) <= QUOTED else text[:QUOTED] + "…")


def _filter_lengths(traces: Sequence[Trace], worker: Worker) -> None:
    for trace in traces:
        trace.prompt = prompt_of(trace, worker.source(trace))
    counts = worker.lengths.count_examples([(trace.prompt, trace.messages) for trace in traces])
    for trace, count in zip(traces, counts, strict=True):
        trace.prompt_tokens, trace.target_tokens = (
            count.prompt,
            count.target + count.observations,
        )
        trace.calls = sum(turn["role"] == TOOL for turn in trace.messages)
        trace.observation_tokens = count.observations
        _align_log_probs(trace, worker)


def _align_log_probs(trace: Trace, worker: Worker) -> None:
    """Drop log-probabilities of other tokens than those that the policy is trained on.

    The teacher has another tokenizer then, its sample splits a word as no tokenizer would, or the target has other
    markers than the response. Where the source has no tokens, training can only compare their number.
    """
    if trace.target_log_probs is None or trace.target_token_ids is None:
        return
    same = len(trace.target_token_ids) == len(trace.target_log_probs)
    if not same or worker.lengths.encode_target(trace.prompt, trace.messages) != trace.target_token_ids:
        trace.target_log_probs = None


def prompt_of(trace: Trace, source: Source) -> list[dict[str, str]]:
    """Return the conversation of a prompt: system message (from the settings, or else the trace) and problem."""
    system = trace.system if source.system_prompt is None else source.system_prompt
    return messages(f"{trace.problem or ''}{source.suffix}", system)


def _describe(trace: Trace, worker: Worker) -> None:
    trace.response = trace.system = trace.target_token_ids = None  # the target holds what is needed of it
    describe(trace, likeness=worker.config.keep == "diverse")
    trace.gold_parses = worker.verifier(trace).gold_problem(trace.gold or "", trace.verifier_fields) is None
    if worker.looks_for_benchmarks:
        trace.benchmark_overlap = worker.benchmark_match(trace.problem or "") is not None
    measure(trace, boxed=worker.is_boxed(trace))
