r"""Rewrite the response formats of traces as ``<think>\n…\n</think>\n\n…\boxed{…}``.

The formats of real files:

- ``think``: ``<think>…</think>…``; the opening tag may have sat in the prompt; the answer may be in ``<answer>`` tags;
- ``tags``: the same with other tags, in any case: ``<thinking>``, ``<reasoning>``, ``<thought>``, ``<Think>``,
  ``[THINK]`` (Mistral), ``◁think▷`` (Kimi);
- ``harmony``: ``<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`` (gpt-oss);
- ``thought_solution``: ``<|begin_of_thought|>…<|end_of_thought|> <|begin_of_solution|>…<|end_of_solution|>``;
- ``im_start``: ``<|im_start|>think … <|im_start|>answer …``. No marker closes the thoughts, and in budget-forced traces
  the answer marker is mostly absent: then the last boxed conclusion is the answer part (``im_start+split``);
- ``plain``: no marker. Rejected, or split before the last boxed conclusion where the config says so (``plain+split``).

A trace with markers that do not close, or occur twice, was cut or joined from pieces. It is rejected, never repaired.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from core.text.patterns import compile_pattern, compile_quick_pattern
from targets.trace import CLOSE_THINK, OPEN_THINK, Rejection

OTHER_TAGS = compile_quick_pattern(
    r"(?i)<(/?)(?:think|thinking|thought|thoughts|reasoning|seed:think)>|\[(/?)THINK\]|\u25c1(/?)think\u25b7"
)
ANSWER_TAG = compile_quick_pattern(r"(?i)<(/?)answer>")
# The header of a message, such as <|start|>assistant<|channel|>analysis<|message|>, and the end of one.
HARMONY = compile_quick_pattern(
    r"(?:<\|start\|>[ \w.]{0,40})?<\|channel\|>([a-z]{1,20})[^<]{0,80}<\|message\|>|<\|(?:end|return|call)\|>"
)
HARMONY_PLAIN = "assistantfinal"  # what is left between the channels where special tokens are left out
IM_START = compile_quick_pattern(r"<\|im_start\|>[ \t]*(\w*)[ \t]*\n?")
END_OF_TEXT = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end|>", "<|return|>", "<end_of_turn>", "</s>")
END_OF_TEXT += ("<\uff5cend\u2581of\u2581sentence\uff5c>",)
_TURN_TOKENS = (
    r"<\|(?:im_start|im_end|endoftext|eot_id|begin_of_text|start_header_id|end_header_id|user|assistant|system)\|>"
    r"|<\|(?:start|channel|message|end|return|call)\|>|<(?:start|end)_of_turn>|<\x{ff5c}[^\x{ff5c}\n]{1,40}\x{ff5c}>"
)
TURN_TOKENS = compile_pattern(_TURN_TOKENS)  # inside a problem, the model would read these as the end of it
# Any of these inside a target would be read as structure by the chat template or by the reward.
CHAT_TOKENS = compile_pattern(
    _TURN_TOKENS + r"|<\|(?:begin|end)_of_(?:thought|solution)\|>|</?think>|</?answer>|</?tool_call>|</?tool_response>"
    r"|\[/?THINK\]|\x{25c1}/?think\x{25b7}|\[/?INST\]"
)
BOX = compile_quick_pattern(r"\\(?:boxed|fbox)(?![a-zA-Z])")
WAITS = frozenset({"Wait", "Wait,", "Wait."})  # lines that budget forcing appends to make the model go on
DISPLAY = ("\\[", "$$", "\\boxed", "\\fbox", "\\begin")  # a paragraph that starts so belongs to the one before it
LONGEST_CLOSING = 400  # characters that may follow the last box where no marker ends the thoughts
QUOTED = 100  # characters of a text in a detail

THOUGHT_SOLUTION = ("<|begin_of_thought|>", "<|end_of_thought|>", "<|begin_of_solution|>", "<|end_of_solution|>")


@dataclass(frozen=True, slots=True)
class Parts:
    """A response, split into thoughts and answer, stripped, and the format they came in."""

    reasoning: str
    answer: str
    response_format: str

    def target(self) -> str:
        """The one form that everything downstream reads."""
        return f"{OPEN_THINK}{self.reasoning}{CLOSE_THINK}{self.answer}"


def parse_response(response: str, *, split_plain: bool = False, answer_tag: bool = False) -> Parts | Rejection:
    """Thoughts and answer of a response, or why it has no such parts; ``answer_tag``: keep <answer> and its end."""
    text = _without_end(response.strip())
    name = find_format(text)
    if name is not None:
        parts = FORMATS[name](text)
    elif split_plain:
        parts = _split(text, "plain")
    else:
        return Rejection("no_think", "no marker ends the thoughts; plain_text: split would look for the conclusion")
    if isinstance(parts, Parts) and answer_tag:
        checked = _check(replace(parts, answer=ANSWER_TAG.sub("", parts.answer).strip()))
        return parts if isinstance(checked, Parts) else checked
    if isinstance(parts, Parts) and parts.response_format in ("think", "tags"):
        parts = _without_answer_tag(parts)
    return parts if isinstance(parts, Rejection) else _check(parts)


def find_format(text: str) -> str | None:
    """The name of the format by the markers of a response; None for a plain text."""
    if any(marker in text for marker in THOUGHT_SOLUTION):
        return "thought_solution"
    if "<think>" in text or "</think>" in text:
        return "think"
    if "<|im_start|>" in text:
        return "im_start"
    if "<|channel|>" in text or (text.startswith("analysis") and HARMONY_PLAIN in text):
        return "harmony"
    return "tags" if OTHER_TAGS.search(text) else None


def _tags(text: str) -> Parts | Rejection:
    """A response with other tags, by what it says with the tags of ``think``."""
    names = {(tag.group().strip("<>[]\u25c1\u25b7/")).lower() for tag in OTHER_TAGS.finditer(text)}
    if len(names) > 1:
        return Rejection("repeated_markers", f"tags of several names: {', '.join(sorted(names))}")
    parts = _think(OTHER_TAGS.sub(lambda tag: f"<{next(filter(None, tag.groups()), '')}think>", text))
    return parts if isinstance(parts, Rejection) else replace(parts, response_format="tags")


def _harmony(text: str) -> Parts | Rejection:
    """The messages of the channels analysis and final, which may have no end."""
    if "<|channel|>" not in text:
        reasoning, _, answer = text.removeprefix("analysis").partition(HARMONY_PLAIN)
        return Parts(reasoning.strip(), answer.strip(), "harmony")
    markers = list(HARMONY.finditer(text))
    channels = [marker.group(1) for marker in markers if marker.group(1)]
    if channels == ["analysis"]:
        return Rejection("unclosed", "no channel final")
    if channels != ["analysis", "final"] or markers[0].start() != 0:
        return Rejection(
            "repeated_markers", f"channels {', '.join(channels[:8]) or '(none)'}; expected analysis, final"
        )
    first, second = (number for number, marker in enumerate(markers) if marker.group(1))
    if second != first + 2 or text[markers[1].end() : markers[second].start()].strip():
        return Rejection("repeated_markers", "the channel analysis does not end before the channel final")
    if len(markers) > second + 1 and text[markers[second + 1].end() :].strip():
        return Rejection("repeated_markers", "text after the channel final")
    end = markers[second + 1].start() if len(markers) > second + 1 else len(text)
    reasoning, answer = text[markers[0].end() : markers[1].start()], text[markers[second].end() : end]
    return Parts(reasoning.strip(), answer.strip(), "harmony")


def _think(text: str) -> Parts | Rejection:
    opens, closes = text.count("<think>"), text.count("</think>")
    if opens > 1 or closes > 1:
        return Rejection("repeated_markers", f"<think> {opens} times, </think> {closes} times")
    if not closes:
        return Rejection("unclosed", "<think> without </think>")
    if opens and not text.startswith("<think>"):
        return Rejection("repeated_markers", "text before <think>")
    reasoning, _, answer = text.removeprefix("<think>").partition("</think>")
    return Parts(reasoning.strip(), answer.strip(), "think")


def _without_answer_tag(parts: Parts) -> Parts | Rejection:
    answer = parts.answer
    if (opening := ANSWER_TAG.match(answer)) and not opening.group(1):
        closing = ANSWER_TAG.search(answer, opening.end())
        if closing is None or not closing.group(1):
            return Rejection("unclosed", "<answer> without </answer>")
        if rest := answer[closing.end() :].strip():
            return Rejection("repeated_markers", f"text after </answer>: {rest[:QUOTED]!r}")
        answer = answer[opening.end() : closing.start()]
    return replace(parts, answer=answer.strip())


def _thought_solution(text: str) -> Parts | Rejection:
    counts = [text.count(marker) for marker in THOUGHT_SOLUTION]
    if repeated := [marker for marker, count in zip(THOUGHT_SOLUTION, counts, strict=True) if count > 1]:
        return Rejection("repeated_markers", f"{', '.join(repeated)} more than once")
    begin, end, solution, done = THOUGHT_SOLUTION
    if missing := [m for m, count in zip(THOUGHT_SOLUTION[1:], counts[1:], strict=True) if not count]:
        return Rejection("unclosed", f"no {', '.join(missing)}")
    if not (text.find(begin) < text.find(end) < text.find(solution) < text.find(done)):
        return Rejection("repeated_markers", "markers out of order")
    before, _, text = text.rpartition(begin)  # an opening that sat in the prompt is absent: rpartition gives it all
    reasoning, _, text = text.partition(end)
    between, _, text = text.partition(solution)
    answer, _, after = text.partition(done)
    if any(piece.strip() for piece in (before, between, after)):
        return Rejection("repeated_markers", "text outside the thought and the solution")
    return Parts(reasoning.strip(), answer.strip(), "thought_solution")


def _im_start(text: str) -> Parts | Rejection:
    markers = list(IM_START.finditer(text))
    roles = [marker.group(1) for marker in markers]
    if markers[0].start() != 0 or roles[0] != "think" or roles not in (["think"], ["think", "answer"]):
        return Rejection(
            "repeated_markers", f"<|im_start|> sections {', '.join(role or '(none)' for role in roles[:8])}"
        )
    if len(markers) == 1:
        return _split(text[markers[0].end() :].strip(), "im_start")
    return Parts(
        text[markers[0].end() : markers[1].start()].strip(), _without_wait(text[markers[1].end() :]), "im_start"
    )


def _split(text: str, response_format: str) -> Parts | Rejection:
    """Thoughts and conclusion of a text with no marker between them: the paragraph of the last box, with the line
    that announces a displayed box, is the conclusion. In a text without empty lines, each line is a paragraph.
    Rejected where the text goes on long after its last box."""
    text = _without_wait(text)
    boxes = [box.start() for box in BOX.finditer(text)]
    if not boxes:
        return Rejection("no_box", "nothing boxed")
    last = boxes[-1]
    gap = "\n\n" if "\n\n" in text[:last] else "\n"
    start = text.rfind(gap, 0, last) + len(gap) if gap in text[:last] else 0
    if text[start:last].lstrip().startswith(DISPLAY) or last == start:
        previous = text.rfind(gap, 0, start - len(gap))
        start = previous + len(gap) if previous >= 0 else start
    start = _after_last_wait(text, start, last)
    answer = text[start:].strip()
    if len(text) - last > LONGEST_CLOSING + len("\\boxed{}"):
        return Rejection("unclosed", f"{len(text) - last} characters after the last box: no conclusion")
    return Parts(_without_wait(text[:start]), answer, f"{response_format}+split")


def _without_end(text: str) -> str:
    """``text`` without the tokens and blanks at its end."""
    end = _end(text, len(text))
    while token := next((token for token in END_OF_TEXT if text.endswith(token, 0, end)), None):
        end = _end(text, end - len(token))
    return text[:end]


def _after_last_wait(text: str, start: int, end: int) -> int:
    """Where the last line in ``text[start:end]`` ends that only says "Wait"; ``start`` if none does."""
    while (newline := text.rfind("\n", start, end)) >= 0:
        if text[newline:end].strip() in WAITS:
            return end
        end = newline
    return start


def _without_wait(text: str) -> str:
    """``text`` without blanks around it and without the lines at its end that only say "Wait"."""
    text = text.strip()
    end = len(text)
    while text[(line := text.rfind("\n", 0, end) + 1) : end].strip() in WAITS:
        end = _end(text, line)
    return text[:end]


def _end(text: str, end: int) -> int:
    """``end`` moved before the blanks that precede it."""
    while end and text[end - 1].isspace():
        end -= 1
    return end


def _check(parts: Parts) -> Parts | Rejection:
    if not parts.answer:
        return Rejection("no_answer", "nothing after the thoughts")
    if not parts.reasoning:
        return Rejection("empty_reasoning", "no thoughts")
    for name, text in (("thoughts", parts.reasoning), ("answer", parts.answer)):
        if token := CHAT_TOKENS.search(text):
            return Rejection("chat_tokens", f"{token.group()} in the {name}")
    return parts


FORMATS: dict[str, Callable[[str], Parts | Rejection]] = {
    "think": _think,
    "tags": _tags,
    "harmony": _harmony,
    "thought_solution": _thought_solution,
    "im_start": _im_start,
}
