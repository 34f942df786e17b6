"""A trace, how a row of a source becomes one or several (the column mappings), and traces as a table.

The table is what travels to the processes that judge: whatever cannot travel, texts that are too large or no valid
Unicode, is refused here, where it is read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from grading.answers import extract_boxed
from targets.config import ColumnMapping, PrepareConfig

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_PROBLEM = 2000  # characters of a refused row's texts that are kept
LONGEST_GOLD = 500
LONGEST_DETAIL = 400

# The names that `mapping` takes; "auto" is the first whose columns are all there, so the most specific come first.
READY: dict[str, ColumnMapping] = {
    # LUFFY's published set, and what this package writes
    "luffy": ColumnMapping(problem="prompt", answer="reward_model.ground_truth", response="target", system="prompt"),
    # OpenR1-Math-220k: every row has several generations with a verdict each
    "openr1": ColumnMapping(
        problem="problem", answer="answer", response="generations", upstream_correct="correctness_math_verify"
    ),
    # OpenThoughts-114k, subset "metadata" (the default one has no gold answers)
    "openthoughts": ColumnMapping(
        problem="problem",
        answer="ground_truth_solution",
        response="deepseek_solution",
        reasoning="deepseek_reasoning",
        worked_solution=True,
    ),
    # OpenThoughts-114k-math: its mathematics, with golds and verdicts
    "openthoughts_math": ColumnMapping(
        problem="problem",
        answer="solution",
        response="conversations",
        upstream_correct="correct",
        worked_solution=True,
    ),
    "s1k_1.1": ColumnMapping(
        problem="question",
        answer="solution",
        response="deepseek_attempt",
        reasoning="deepseek_thinking_trajectory",
        upstream_correct="deepseek_grade",
        worked_solution=True,
    ),
    "s1k": ColumnMapping(
        problem="question",
        answer="solution",
        response="attempt",
        reasoning="thinking_trajectories",
        worked_solution=True,
    ),
    "traces": ColumnMapping(
        problem="problem", answer="gold_answer", response="response", upstream_correct="upstream_correct"
    ),
    "plain": ColumnMapping(problem="problem", answer="answer", response="response"),
    "question": ColumnMapping(problem="question", answer="answer", response="response"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a row cannot be a target: the name of the filter, and the numbers or the place behind it."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """One generation for one problem, as it was found. With a ``fault`` the texts may be missing."""

    id: str
    source: str
    row: int  # in the source, from 0
    of: int = 1  # traces that this row of the source gives
    problem: str | None = None
    gold: str | None = None
    response: str | None = None
    system: str | None = None
    upstream_correct: bool | None = None
    fault: Fault | None = None


class _Refused(Exception):
    """A value of one row that does not fit; ``fault`` says why."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.fault = Fault(reason, detail)


def choose_mapping(mapping: ColumnMapping | str, columns: Sequence[str], where: str) -> ColumnMapping:
    """The mapping to read ``columns`` with; InputError, with what is there and what was looked for, if none fits."""
    if isinstance(mapping, str) and mapping != "auto" and mapping not in READY:
        raise InputError(
            f"mapping {mapping!r} does not exist: expected auto, one of {', '.join(READY)}, or the columns"
        )
    present = f"it has {', '.join(columns) or 'no columns'}"
    if mapping == "auto":
        for ready in READY.values():
            if set(ready.columns()) <= set(columns):
                return ready
        wanted = "; ".join(f"{name}: {', '.join(ready.columns())}" for name, ready in READY.items())
        raise InputError(
            f"{where}: the columns fit no ready mapping: {present}; looked for {wanted}. "
            "Name them: mapping: {problem: …, answer: …, response: …}"
        )
    chosen = READY[mapping] if isinstance(mapping, str) else mapping
    if missing := [column for column in chosen.columns() if column not in columns]:
        raise InputError(f"{where}: no column {', '.join(missing)}: {present}; correct the mapping")
    return chosen


def to_traces(row: Mapping[str, Any] | Fault, mapping: ColumnMapping, source: str, number: int) -> Iterator[Trace]:
    """The traces of row ``number`` of ``source``: at least one, with a fault where the row is not usable."""
    name = f"{source}:{number}"
    if isinstance(row, Fault):
        yield Trace(name, source, number, fault=row)
        return
    common: dict[str, Any] = {"problem": None, "gold": None}
    try:
        common["problem"] = _text(_value(row, mapping.problem), "problem", role="user")
        common["gold"] = _gold(_text(_value(row, mapping.answer), "gold", numbers=True), mapping)
        common["system"] = _system(_value(row, mapping.system)) if mapping.system else None
        generations = _generations(row, mapping)
    except _Refused as refused:
        yield Trace(name, source, number, **common, fault=refused.fault)
        return
    common["of"] = len(generations)
    for k, (response, reasoning, correct) in enumerate(generations):
        identity = name if len(generations) == 1 else f"{name}.{k}"
        try:
            text = _text(response, "response", role="assistant")
            if mapping.reasoning:
                text = f"<think>\n{_text(reasoning, 'reasoning')}\n</think>\n\n{text}"
            flag = _flag(correct)
        except _Refused as refused:
            yield Trace(identity, source, number, **common, fault=refused.fault)
            continue
        yield Trace(identity, source, number, **common, response=text, upstream_correct=flag)


def _gold(text: str, mapping: ColumnMapping) -> str:
    """The gold answer; of a worked solution its last box, and the whole text where nothing is boxed."""
    return (extract_boxed(text) if mapping.worked_solution else None) or text


def _generations(row: Mapping[str, Any], mapping: ColumnMapping) -> list[tuple[Any, Any, Any]]:
    """(response, reasoning, upstream flag) of every generation of a row."""
    response = _value(row, mapping.response)
    reasoning = _value(row, mapping.reasoning) if mapping.reasoning else None
    correct = _value(row, mapping.upstream_correct) if mapping.upstream_correct else None
    several = isinstance(response, list) and not any(isinstance(item, Mapping) for item in response)
    if not several:
        return [(response, reasoning, correct)]
    if not response:
        raise _Refused("no_response", "an empty list of generations")
    columns = []
    for name, values in (("reasoning", reasoning), ("upstream_correct", correct)):
        values = [None] * len(response) if values is None else values
        if not isinstance(values, list) or len(values) != len(response):
            raise _Refused("wrong_type", f"{name}: expected a list of {len(response)}, one for each generation")
        columns.append(values)
    return list(zip(response, *columns, strict=True))


def _value(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for part in path.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise _Refused("wrong_type", f"{path}: {part!r} looked for in a {type(value).__name__}")
        value = value.get(part)
    return value


def _text(value: Any, what: str, *, role: str | None = None, numbers: bool = False) -> str:
    """The text of a value: a string, the last message of ``role``, or a number where one makes sense."""
    if role and isinstance(value, list):
        value = _message(value, role)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if numbers and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(int(value) if isinstance(value, float) and value.is_integer() else value)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise _Refused(f"no_{what}", "empty" if value is not None else "missing")
    if not isinstance(value, str):
        raise _Refused("wrong_type", f"{what}: expected text, found {type(value).__name__}")
    return value


def _message(messages: list[Any], role: str) -> Any:
    """Content of the last message of ``role``, in {role, content} or {from, value} spelling."""
    names = {"user": ("user", "human"), "assistant": ("assistant", "gpt"), "system": ("system",)}[role]
    for message in reversed(messages):
        if not isinstance(message, Mapping):
            raise _Refused("wrong_type", f"a chat message is a {type(message).__name__}")
        if (message.get("role") or message.get("from")) in names:
            content = message.get("content")
            return message.get("value") if content is None else content
    return None


def _system(value: Any) -> str | None:
    content = _message(value, "system") if isinstance(value, list) else value
    if content is not None and not isinstance(content, str):
        raise _Refused("wrong_type", f"system: expected text, found {type(content).__name__}")
    return content or None


def _flag(value: Any) -> bool | None:
    if isinstance(value, str) and value.strip().lower() in ("yes", "no"):
        return value.strip().lower() == "yes"
    if value is not None and not isinstance(value, bool):
        raise _Refused("wrong_type", f"upstream_correct: expected true or false, found {type(value).__name__}")
    return value


def unreadable(trace: Trace, config: PrepareConfig) -> Fault | None:
    """Texts that must not reach any regular expression, tokenizer or file: too large, or no valid Unicode."""
    if trace.fault is not None:
        return trace.fault
    for name in ("problem", "gold", "response", "system"):
        text = getattr(trace, name)
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


def printable(text: str | None, longest: int) -> str | None:
    """``text`` cut, and made valid Unicode without NUL."""
    return None if text is None else text[:longest].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def readable(trace: Trace, config: PrepareConfig) -> Trace:
    """``trace`` as it can travel: an unreadable one keeps its fault and the beginnings of its texts."""
    fault = unreadable(trace, config)
    if fault is None:
        return trace
    problem, gold = printable(trace.problem, LONGEST_PROBLEM), printable(trace.gold, LONGEST_GOLD)
    detail = printable(fault.detail, LONGEST_DETAIL) or ""
    return replace(trace, problem=problem, gold=gold, response=None, system=None, fault=Fault(fault.reason, detail))


def trace_schema() -> "pa.Schema":
    """One column for each field of `Trace`; a fault as its two texts."""
    import pyarrow as pa

    kinds = {"row": pa.int64(), "of": pa.int64(), "upstream_correct": pa.bool_()}
    names = [field.name for field in fields(Trace) if field.name != "fault"]
    return pa.schema([(name, kinds.get(name, pa.string())) for name in (*names, "fault_reason", "fault_detail")])


def to_table(traces: Iterable[Trace]) -> "pa.Table":
    """`readable` traces as a table."""
    import pyarrow as pa

    traces, schema = list(traces), trace_schema()
    columns = [[getattr(trace, name) for trace in traces] for name in schema.names[:-2]]
    columns.append([trace.fault and trace.fault.reason for trace in traces])
    columns.append([trace.fault and trace.fault.detail for trace in traces])
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema)


def from_table(table: "pa.Table") -> list[Trace]:
    """The traces that `to_table` wrote."""
    traces = []
    for row in table.to_pylist():
        reason, detail = row.pop("fault_reason"), row.pop("fault_detail")
        traces.append(Trace(**row, fault=None if reason is None else Fault(reason, detail)))
    return traces
