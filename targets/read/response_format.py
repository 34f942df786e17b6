r"""Response formats of traces, rewritten as ``<think>\n…\n</think>\n\n…\boxed{…}``.

The formats of real files:

- ``think``: ``<think>…</think>…``; the opening tag may have sat in the prompt; the answer may be in ``<answer>`` tags;
- ``thought_solution``: ``<|begin_of_thought|>…<|end_of_thought|> <|begin_of_solution|>…<|end_of_solution|>``;
- ``im_start``: ``<|im_start|>think … <|im_start|>answer …``. No marker closes the thoughts, and in budget-forced traces
  the answer marker is mostly absent: then the last boxed conclusion is the answer part (``im_start+split``);
- ``plain``: no marker. Rejected, or split before the last boxed conclusion where the config says so (``plain+split``).

A trace whose markers do not close, or occur twice, was cut or joined from pieces. It is rejected, never repaired.
"""

from dataclasses import dataclass

from core.text.patterns import compile_pattern, compile_quick_pattern
from targets.trace import CLOSE_THINK, OPEN_THINK, Rejection

IM_START = compile_quick_pattern(r"<\|im_start\|>[ \t]*(\w*)[ \t]*\n?")
END_OF_TEXT = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>", "<\uff5cend\u2581of\u2581sentence\uff5c>")
# Any of these inside a target would be read as structure by the chat template or by the reward.
CHAT_TOKENS = compile_pattern(
    r"<\|(?:im_start|im_end|endoftext|eot_id|begin_of_text|start_header_id|end_header_id|begin_of_thought|end_of_thought"
    r"|begin_of_solution|end_of_solution|user|assistant|system)\|>|</?think>|</?answer>|</?tool_call>|</?tool_response>"
    r"|<\x{ff5c}[^\x{ff5c}\n]{1,40}\x{ff5c}>|\[/?INST\]"
)
BOX = compile_quick_pattern(r"\\(?:boxed|fbox)(?![a-zA-Z])")
WAITS = frozenset({"Wait", "Wait,", "Wait."})  # lines that budget forcing appends to make the model go on
DISPLAY = ("\\[", "$$", "\\boxed", "\\fbox", "\\begin")  # a paragraph that starts so belongs to the one before it
LONGEST_CLOSING = 400  # characters that may follow the last box where no marker ends the thoughts
QUOTED = 100  # characters of a text in a detail

THOUGHT_SOLUTION = ("<|begin_of_thought|>", "<|end_of_thought|>", "<|begin_of_solution|>", "<|end_of_solution|>")


@dataclass(frozen=True, slots=True)
class Parts:
    """A response taken apart: thoughts and answer, stripped, and the format they came in."""

    reasoning: str
    answer: str
    response_format: str

    def target(self) -> str:
        """The one form that everything downstream reads."""
        return f"{OPEN_THINK}{self.reasoning}{CLOSE_THINK}{self.answer}"


def parse_response(response: str, *, split_plain: bool = False) -> Parts | Rejection:
    """Thoughts and answer of a response, or why it has no such parts."""
    text = _without_end(response.strip())
    if any(marker in text for marker in THOUGHT_SOLUTION):
        parts = _thought_solution(text)
    elif "<think>" in text or "</think>" in text:
        parts = _think(text)
    elif "<|im_start|>" in text:
        parts = _im_start(text)
    elif split_plain:
        parts = _split(text, "plain")
    else:
        return Rejection("no_think", "no marker ends the thoughts; plain_text: split would look for the conclusion")
    return parts if isinstance(parts, Rejection) else _check(parts)


def _think(text: str) -> Parts | Rejection:
    opens, closes = text.count("<think>"), text.count("</think>")
    if opens > 1 or closes > 1:
        return Rejection("repeated_markers", f"<think> {opens} times, </think> {closes} times")
    if not closes:
        return Rejection("unclosed", "<think> without </think>")
    if opens and not text.startswith("<think>"):
        return Rejection("repeated_markers", "text before <think>")
    reasoning, _, answer = text.removeprefix("<think>").partition("</think>")
    answer = answer.strip()
    if answer.startswith("<answer>"):
        answer, closing, rest = answer.removeprefix("<answer>").partition("</answer>")
        if not closing:
            return Rejection("unclosed", "<answer> without </answer>")
        if rest.strip():
            return Rejection("repeated_markers", f"text after </answer>: {rest.strip()[:QUOTED]!r}")
    return Parts(reasoning.strip(), answer.strip(), "think")


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
    that announces a displayed box, is the conclusion. Rejected where the text goes on long after its last box."""
    text = _without_wait(text)
    boxes = [box.start() for box in BOX.finditer(text)]
    if not boxes:
        return Rejection("no_box", "nothing boxed")
    last = boxes[-1]
    start = text.rfind("\n\n", 0, last) + 2 if "\n\n" in text[:last] else 0
    if text[start:last].lstrip().startswith(DISPLAY) or last == start:
        previous = text.rfind("\n\n", 0, start - 2)
        start = previous + 2 if previous >= 0 else start
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
