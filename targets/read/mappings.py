"""Map the columns of a source to the parts of a trace, and turn each row into one or several traces."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from core.errors import InputError
from grading.answers.extraction import LETTERS, SEPARATOR
from grading.answers.gold import explain_unreadable, gold_answer, number_text
from grading.answers.options import labels_in, read_options, with_options
from targets.read.chats import read_chat, with_thoughts
from targets.read.episodes import Turns, split_code
from targets.read.json_rows import Row
from targets.read.response_format import find_format
from targets.read.worked_solutions import render_steps
from targets.settings import TargetSettings
from targets.source_settings import (
    OPTION_COLUMNS,
    OPTIONAL_COLUMNS,
    REASONING_COLUMNS,
    ColumnMapping,
    Source,
    ready_mappings,
    top_level,
)
from targets.trace import LONGEST_METADATA, Rejection, Trace, Unusable, printable

CUT = {
    "length": "reached its token limit",
    "content_filter": "was cut by a filter",
}  # by finish_reason
BYTES = frozenset(map(chr, range(0xDC80, 0xDD00)))  # what bytes that are not UTF-8 become
NO_VALUE = frozenset({"nan", "null", "<na>"})  # what an empty place becomes in a table that is written as text
YES, NO = ("yes", "true"), ("no", "false")
NAMED_COLUMNS = 30  # of a file, in a message
LONGEST_COLUMN = 60  # characters of its name
NEAREST_MAPPINGS = 5  # in a message


def choose_mapping(mapping: ColumnMapping | str, columns: list[str], where: str) -> ColumnMapping:
    """The mapping to read ``columns`` with.

    A ready mapping also fits columns with other capitals, or with blanks around their names.

    Args:
        mapping: the columns that a user names, a ready mapping, or ``auto``.
        where: the source, for messages.

    Raises:
        InputError: none fits; the message has the columns that are there.
    """
    names = {name.strip().lower(): name for name in columns}
    names |= {name: name for name in columns}  # a column of exactly that name comes first

    chosen = _choose(mapping, columns, names, where)
    there: dict[str, Any] = {
        name: names[name] for name in OPTIONAL_COLUMNS if name in names and getattr(chosen, name) is None
    }
    if chosen.system is None and isinstance(chosen.problem, str):
        there["system"] = names.get("system", chosen.problem)
    if chosen.options is None and (options := [names[name] for name in OPTION_COLUMNS if name in names]):
        there |= {"options": options[0], "options_required": False}
    thoughts = [names[name] for name in REASONING_COLUMNS if name in names]
    if thoughts and chosen.reasoning is None and not chosen.steps:
        there |= {"reasoning": thoughts[0], "reasoning_required": False}
    return chosen.model_copy(update=there)


def _choose(mapping: ColumnMapping | str, columns: list[str], names: dict[str, str], where: str) -> ColumnMapping:
    present = f"it has {_named(columns)}"
    ready = {name: one.resolve([*names]).renamed(names) for name, one in ready_mappings().items()}
    if mapping == "auto":
        for candidate in ready.values():
            if set(candidate.columns()) <= set(columns):
                return candidate
        needed = {name: one.resolve(()).columns() for name, one in ready_mappings().items()}
        nearest = sorted(needed, key=lambda name: (name != "plain", len({*needed[name]} - {*columns})))[
            :NEAREST_MAPPINGS
        ]
        expected = "; ".join(f"{name}: {', '.join(needed[name])}" for name in nearest)
        raise InputError(
            f"{where}: the columns fit no ready mapping: {present}; of {len(ready)}, the nearest are {expected}. "
            "Or give mapping: {problem: …, answer: …, response: …}; reasoning instead of response if thoughts and a "
            "bare answer have separate columns"
        )
    if isinstance(mapping, str):
        if mapping not in ready:
            raise InputError(
                f"mapping {mapping!r} does not exist: expected auto, one of {', '.join(ready)}, or the columns"
            )
        mapping = ready[mapping]
    mapping = mapping.resolve(columns)
    if missing := [column for column in mapping.columns() if column not in columns]:
        dotted = [column for column in columns if "." in column]
        advice = f"rename {dotted[0]}: a dot leads into a column" if dotted else "correct the mapping"
        raise InputError(f"{where}: no column {', '.join(missing)}: {present}; {advice}")
    return mapping


def _named(columns: Sequence[str]) -> str:
    """The first columns, for a message: a file without a header has a row in place of their names."""
    more = f" and {len(columns) - NAMED_COLUMNS:,} more" if len(columns) > NAMED_COLUMNS else ""
    names = [name if len(name) <= LONGEST_COLUMN else f"{name[:LONGEST_COLUMN]}…" for name in columns[:NAMED_COLUMNS]]
    # Blanks around a name would not be seen.
    shown = [repr(name) if name != name.strip() else " ".join(name.split()) for name in names]
    return f"{', '.join(shown) or 'no columns'}{more}"


def check_columns(source: Source, columns: list[str], where: str) -> None:
    """Raise InputError if metadata or fields of ``source`` name a column that is not among ``columns``."""
    for setting, paths in (("metadata", source.metadata), ("fields", source.field_paths)):
        if missing := [name for name in top_level(paths.values()) if name not in columns]:
            raise InputError(
                f"{where}: no column {', '.join(missing)} for {setting}: it has {_named(columns)}; correct {setting}"
            )


def to_traces(
    row: Row, mapping: ColumnMapping, source: Source, part: str, number: int, *, tools: bool = False
) -> Iterator[Trace]:
    """The traces of row ``number`` of ``part``: at least one, rejected where the row is not usable.

    ``tools``: whether responses may call tools.
    """
    name = f"{part}:{number}"
    if isinstance(row, Rejection):
        yield _rejected(Trace(name, part, number, metadata=source.constants), row)
        return
    common: dict[str, Any] = {"metadata": _metadata(row, source), "fields": _fields(row, source)}
    try:
        common["problem"] = _problem(row, mapping, tools)
        common["gold"] = _gold(_value(row, str(mapping.answer)), mapping)
        common |= _with_options(common["problem"], common["gold"], row, mapping)
        common["system"] = _system(row, mapping, tools)
        generations = _generations(row, mapping, common["gold"])
    except Unusable as unusable:
        yield _rejected(Trace(name, part, number, **common), unusable.rejection)
        return
    common["of"] = len(generations)
    for k, (response, reasoning, correct, log_probs, token_ids, finish) in enumerate(generations):
        trace = Trace(name if len(generations) == 1 else f"{name}.{k}", part, number, **common)
        try:
            trace.turns = _turns(response) if tools else None
            text = _joined(trace.turns) if trace.turns else _response(response, reasoning, mapping)
            trace.upstream_correct = _flag(correct)
            trace.target_log_probs = _log_probs(log_probs)
            trace.target_token_ids = _token_ids(token_ids)
            trace.response = text
            if isinstance(finish, str) and finish in CUT:
                raise Unusable("unclosed", f"the generation {CUT[finish]} (finish_reason: {finish})")
        except Unusable as unusable:
            trace = _rejected(trace, unusable.rejection)
        yield trace


def _rejected(trace: Trace, rejection: Rejection) -> Trace:
    trace.reject(rejection)
    return trace


def _metadata(row: Mapping[str, Any], source: Source) -> dict[str, str]:
    """The metadata of the traces of a row, as short texts; what a row does not have is left out."""
    values = dict(source.constants)
    for name, path in source.metadata.items():
        try:
            value = _value(row, path)
        except Unusable:
            continue  # it is not of the shape that the path expects, so it is not there
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
            values[name] = printable(text, LONGEST_METADATA) or ""
    return values


def _fields(row: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """The fields of a row that the verifier reads, as JSON values; what a row does not have is left out."""
    fields: dict[str, Any] = {}
    for name, path in source.field_paths.items():
        with suppress(Unusable):  # not of the shape that the path expects, so it is not there
            if (value := _value(row, path)) is not None:
                fields[name] = json.loads(json.dumps(value, default=str))
    return fields


def _problem(row: Mapping[str, Any], mapping: ColumnMapping, tools: bool) -> str:
    if isinstance(mapping.problem, list):
        values = [_value(row, path) for path in mapping.problem]
        return _text(
            " ".join(_text(value, "problem").strip() for value in values if not _is_empty(value)),
            "problem",
        )
    value = _value(row, mapping.problem)
    chat = read_chat(value, "user", tools=tools)
    if chat is None:
        return _text(value, "problem")
    if chat.assistant is not None and mapping.problem != mapping.response:
        raise Unusable("several_turns", "the prompt has an answer, and the response is another one")
    return _text(chat.user, "problem")


def _with_options(problem: str, gold: str, row: Mapping[str, Any], mapping: ColumnMapping) -> dict[str, str]:
    """A question with the options of a column, unless it lists some, and the label of its gold answer as A to J."""
    if mapping.options is None or labels_in(problem):
        return {}
    try:
        options = read_options(_value(row, mapping.options), None, mapping.options)
    except InputError as error:
        if mapping.options_required:
            raise Unusable("wrong_type", str(error)) from None
        return {}
    letters = dict(zip(options.labels or (), LETTERS, strict=False))
    return {"problem": with_options(problem, options.texts), "gold": letters.get(gold, gold)}


def _gold(value: Any, mapping: ColumnMapping) -> str:
    if isinstance(value, list) and value and all(isinstance(part, str | int | float) for part in value):
        # As benchmarks read it (gold_list: all): the answer is all of them.
        return SEPARATOR.join(_gold(part, mapping) for part in value)
    if isinstance(value, float) and not math.isfinite(value):
        raise Unusable("no_gold", f"{value} is no answer")
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        value = number_text(value)
    text = _text(value, "gold")
    if text.strip().lower() in NO_VALUE:
        raise Unusable("no_gold", f"{text!r} stands for an empty place")
    answer = gold_answer(text, mapping.answer_form)
    if answer is None:
        raise Unusable("no_gold", explain_unreadable(text, mapping.answer_form))
    return answer


def _system(row: Mapping[str, Any], mapping: ColumnMapping, tools: bool) -> str | None:
    """The text of a column of its own, or else the system message of the chat."""
    if mapping.system is None:
        return None
    value = _value(row, mapping.system)
    apart = mapping.system != mapping.problem and not _is_empty(value)
    if not apart and isinstance(mapping.problem, str):  # without a text of its own, it may be in the chat
        value = _value(row, mapping.problem)
    chat = read_chat(value, "system" if apart else "user", tools=tools)
    if chat is not None:
        return chat.system
    return _text(value, "system") if apart else None


def _turns(value: Any) -> Turns | None:
    """The turns of a response that calls tools, and None of any other."""
    chat = read_chat(value, "assistant", tools=True)
    text = value if chat is None else chat.assistant
    return (chat and chat.turns) or (split_code(text) if isinstance(text, str) else None) or None


def _joined(turns: Turns) -> str:
    return "\n".join(turn["content"] for turn in turns)


def _response(value: Any, reasoning: Any, mapping: ColumnMapping) -> str:
    """A response with its thoughts, which may be in a column of their own."""
    chat = read_chat(value, "assistant")
    text = _text(value if chat is None else chat.assistant, "response")
    if mapping.reasoning is None or (not mapping.reasoning_required and (not reasoning or find_format(text))):
        return text
    return with_thoughts(_text(reasoning, "reasoning"), text)


def _generations(row: Mapping[str, Any], mapping: ColumnMapping, gold: str) -> list[tuple[Any, ...]]:
    """(response, reasoning, upstream flag, log-probabilities, tokens, why it ended) of every generation of a row."""
    several = isinstance(mapping.response, list)
    if mapping.response is None:
        response = f"\\boxed{{{gold}}}"
    elif isinstance(mapping.response, str):
        response = _value(row, mapping.response)
    else:
        response = [_value(row, path) for path in mapping.response]
    if mapping.steps:
        response = _steps(response)
    names = ("reasoning", "upstream_correct", *OPTIONAL_COLUMNS)
    optional = {name: _value(row, path) if (path := getattr(mapping, name)) else None for name in names}
    several |= isinstance(response, list) and not any(isinstance(item, Mapping) for item in response)
    if not several:
        return [(response, *optional.values())]
    if not response:
        raise Unusable("no_response", "an empty list of generations")
    if not mapping.reasoning_required and not isinstance(optional["reasoning"], list):
        optional["reasoning"] = None
    columns = []
    for name, values in optional.items():
        values = [None] * len(response) if values is None else values
        if not isinstance(values, list) or len(values) != len(response):
            raise Unusable("wrong_type", f"{name}: expected a list of {len(response)}, one for each generation")
        columns.append(values)
    return list(zip(response, *columns, strict=True))


def _steps(value: Any) -> str:
    if not isinstance(value, str) and not (isinstance(value, list) and all(isinstance(step, str) for step in value)):
        raise Unusable("wrong_type", f"steps: expected a list of texts or a text, found {type(value).__name__}")
    if not value or not all(step.strip() for step in ([value] if isinstance(value, str) else value)):
        raise Unusable("no_response", "no steps" if not value else "an empty step")
    return render_steps(value)


def _value(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for part in path.split("."):
        if value is None:
            return None
        if isinstance(value, str) and value.lstrip().startswith("{"):  # a struct that a table holds as text
            with suppress(ValueError, RecursionError):
                value = json.loads(value)
        if not isinstance(value, Mapping):
            raise Unusable("wrong_type", f"{path}: {part!r} looked for in a {type(value).__name__}")
        value = value.get(part)
    return value


def _text(value: Any, what: str) -> str:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if _is_empty(value):
        raise Unusable(f"no_{what}", "empty" if value is not None else "missing")
    if not isinstance(value, str):
        advice = "; write it as JSON text, which the verifier json reads" if isinstance(value, dict | list) else ""
        raise Unusable("wrong_type", f"{what}: expected text, found {type(value).__name__}{advice}")
    return value


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _flag(value: Any) -> bool | None:
    if isinstance(value, str) and (word := value.strip().lower()) in (*YES, *NO):
        return word in YES
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    if value is not None:
        raise Unusable("wrong_type", f"upstream_correct: expected true or false, found {type(value).__name__}")
    return None


def _log_probs(value: Any) -> list[float] | None:
    """Finite numbers of at most 0; how many there must be, only training knows, which renders the target."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise Unusable(
            "wrong_type",
            f"target_log_probs: expected a list of numbers, found {type(value).__name__}",
        )
    for number in value:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise Unusable("wrong_type", f"target_log_probs: expected numbers, found {type(number).__name__}")
        if not (math.isfinite(number) and number <= 0):
            raise Unusable(
                "wrong_type",
                f"target_log_probs: {number} is no log-probability (finite, at most 0)",
            )
    return [float(number) for number in value]


def _token_ids(value: Any) -> list[int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or any(isinstance(token, bool) or not isinstance(token, int) for token in value):
        raise Unusable("wrong_type", "target_token_ids: expected a list of whole numbers")
    return value


def reject_unreadable(trace: Trace, config: TargetSettings) -> Trace:
    """``trace``, rejected if a text is too large or no valid Unicode; then it keeps only what can be shown.

    Such a text must not reach a regular expression, a tokenizer, another process or a file.
    """
    if not trace.reasons and (rejection := _unreadable(trace, config)):
        trace.reject(rejection)
    if trace.reasons:
        trace.shorten()
    return trace


def _unreadable(trace: Trace, config: TargetSettings) -> Rejection | None:
    limit = config.max_text_bytes
    for name in ("problem", "gold", "response", "system"):
        text = getattr(trace, name)
        if text is None:
            continue
        if len(text) > limit:
            return Rejection("too_large", f"{name}: {len(text)} characters (limit {limit} bytes)")
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            is_byte = text[error.start] in BYTES
            fault = "a byte that is not UTF-8 (iconv converts the file)" if is_byte else "lone surrogate"
            return Rejection("bad_text", f"{name}: {fault} at character {error.start}")
        if size > limit:
            return Rejection("too_large", f"{name}: {size} bytes (limit {limit})")
        if "\0" in text:
            return Rejection("bad_text", f"{name}: NUL at character {text.index(chr(0))}")
    for name in ("target_log_probs", "target_token_ids"):
        if (numbers := len(getattr(trace, name) or ())) > config.max_target_tokens:
            return Rejection("too_large", f"{name}: {numbers} numbers (limit {config.max_target_tokens} tokens)")
    return None
