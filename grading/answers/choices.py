"""Multiple-choice answers: find the option, or the options, that a response chose, and compare their labels.

A label counts if it is in a box or stated ("Answer: C", "I choose C"), and if what stands behind it neither takes it
back nor names another option.
"""

import unicodedata

from core.text.patterns import Match, compile_full_match, compile_quick_pattern
from grading.answers.extraction import LETTERS, POSITIONS, SEPARATOR, extract_boxed
from grading.answers.rewriting import rewrite, rules
from grading.answers.spelling import TEXT, normalize

_LETTER = compile_full_match(r"""["'\[{(]*([A-Ja-j1-9]|10)[)}\]"']*[.:]?""")  # without blanks
# "A" and "I" are words, too: after them only what does not start with a small letter is an option's text.
_WITH_TEXT = compile_full_match(
    r"(?s)(?P<open>\(?)(?P<label>[A-J])(?P<end> ?[.):\-])\s*(?P<text>(?![.!?\s]*\Z)\S.*)"
    r"|(?P<bare>[B-HJ](?= +[^\s=<>+*/^])|[AI](?= +[^\sa-z=<>+*/^])) +(?P<behind>.*)"
)
_LABEL = r"\(?[A-J](?![a-zA-Z'])"
_OTHER = r"(?i:option )?\(?(?:[B-HJ](?![a-zA-Z'])|[AI](?![a-zA-Z']| [a-z]))"  # another label, and no word
_DOUBT = r"(?i:or|and/or|also|nor|maybe|perhaps|possibly|alternatively|versus|vs|even|cup|cap|lor|land|setminus)"
_GOOD = r"(?:possible|acceptable|correct|right|valid|true|plausible|works?|fits?)"
_SEVERAL = compile_quick_pattern(  # behind a label: another one, as an alternative or besides
    rf"\A\W{{0,5}}(?:{_DOUBT}\W{{1,3}}){{1,3}}{_OTHER}"
    rf"|\A\)?\s?(?:(?i:and|plus|as well as)(?![a-zA-Z])|[,/&;|+→或和与]者?|->)\W{{0,4}}{_OTHER}"
    r"(?!\)? (?:is|are|was|has|does|would|can|cannot|fails|gives)\b)"
    rf"|\A(?:\W{{0,4}}(?:to\W)?{_LABEL}){{1,9}}\W{{0,4}}(?:\Z|\n)"
    r"|\A[^.\n]{0,40}?[ (]\(?[A-J]\)? [^.;,\n]{0,20}?"
    rf"(?i:\b(?:also|equally) (?:be )?{_GOOD}|\b{_GOOD},? (?:too|also|as well)\b)"
    r"|\A[^.;\n]{0,60}? (?i:and|but|or) \(?[A-J]\)? (?i:otherwise|overall|in general|if|when)\b"
    r"|\A[^.;\n]{0,60}?[,;] ?(?i:otherwise|else)[, ]{1,2}(?:(?i:it is|the answer is|option) )?\(?[A-J](?![a-zA-Z'])"
)
_TAKEN_BACK = compile_quick_pattern(  # behind a label: what denies it, or asks
    r"\A\W{0,6}(?i:(?:(?:which|that|this|it)(?: |.(?=s )))?(?:is|was|s) (?:wrong|incorrect|false|not (?:right|true))\b"
    r"|only (?:if|when)\b|(?:if and only if|unless)\b"
    r"|(?:(?:is|was) not|(?:is|was)n.?t|can ?not be|can.t be)(?: (?:the |a )?(?:correct|right|true|valid|answer)\b"
    r"|\W{0,4}\Z)|(?:is|was|seems|looks) \w{1,20},? (?:but|yet) (?:wrong|incorrect|false)\b"
    r"|can be (?:eliminated|excluded|ruled out))"
    r"|\A\s{0,3}(?:\?|\)?[,.;(—–-]{1,3}\s{0,2}(?i:(?:hm+|oh),? )?(?i:(?:no|nope|sorry|wait|correction)\s?"
    r"(?:[,.!:;]|(?:it|wait)\b|\(?[A-J]\b)|(?:or|maybe) not\b|scratch that\b|(?:but )?I disagree\b"
    r"|actually,? (?:it\b|no\b|(?:option )?\(?[A-J](?![a-zA-Z']))))"
)
# Behind a label without a mark in a box: words that begin no option's text.
_SENTENCE = compile_quick_pattern(r"\A\W{0,3}(?:is|was|isn.?t|or|nor|not?|maybe|perhaps|possibly|versus|vs|wrong)\b")
# An option besides the first: how its label begins and ends.
_SECOND = compile_quick_pattern(r"(?i:\bor|\band|[,;|\n])\s{0,4}(\(?)[A-J]( ?[.):\-])\s?\S")
_REFERENCE = compile_quick_pattern(r"(?i)\b(?:both|neither|either|all|none|only)\b")  # of an option to others
_OF_WRONG = compile_quick_pattern(r"(?i)(?:wrong|incorrect|false|bad|worst|rejected|eliminated) ?\Z")
_NOT = compile_quick_pattern(r"(?i)\bnot (?:the |my )?(?:correct |right |final )?\Z")
_SUPPOSED = compile_quick_pattern(
    r"(?i)\b(?:if|suppose|assume|assuming|whether)(?: that)?(?: the| my)?(?: correct)? ?\Z"
)
# An "A" or "I" before a small letter is a label only before one of these words.
_WORD_FOLLOWS = compile_quick_pattern(
    r"\A (?!(?:because|since|as|for|by|due|which|that|and|or|with|in|from|given|based|where|if|when|is|was|so|according"
    r"|while|whereas|rather|under|but|after|before|through|using|here|only|then|thus|hence|not|instead|at|on|to"
    r"|it|this|via)\b)[a-z]"
)
_OPTION = compile_quick_pattern(r"\A(?i:option|choice|answer|选项)\s*(?=\(?[A-J]\b)")
_STATED = compile_quick_pattern(
    r"(?i:(?P<noun>answer|choice|option)\s*+(?P<verb>is|:|=|[–—-](?=\s)|(?:should|must|will|has to) be"
    r"|(?<!then the answer )would be)++\s*+(?:(?:option|choice)\s++)?|answer\s++"
    r"|(?<![a-z])(?:I|we)(?:'ll|'d| will| would| therefore| thus)? (?:choose|chose|pick|picked|select|selected|go with)"
    r"\s++(?:(?:option|choice|answer)\s++)?)\(?\s*+(?P<label>[A-J]|[a-j](?=[).]{0,4}\s*+\Z))(?![a-zA-Z'])"
)
_CONCLUDED = compile_quick_pattern(
    r"(?:(?i:which (?:is|matches|corresponds to)) (?i:option|choice) \(?(?P<fitting>[A-J])\)?"
    r"|(?:\A|[.!:\n]\s{1,2}|(?i:so|thus|hence|therefore),? )(?i:option |choice )?\(?(?P<named>[A-J])\)? is (?:the )?"
    r"(?:correct|right|best|answer)(?: (?:answer|option|choice|one))?"
    r"|(?i:\b(?:so|thus|hence|therefore),? (?:(?:the )?(?:correct )?(?:option|choice|answer)s?:? |it(?: is|'s) )?)"
    r"\(?(?P<last>[A-J])\)?)[.!]{0,2}\s*+\Z"
)
# A label is all, or begins the only line.
_ALONE = compile_full_match(r"\s*[(\[]*[A-J](?:[)\]]*\.?|[.)] (?!(?i:no|or|wait)\b)[^\n]{1,200})\s*")
_PLAIN = rules(  # one language without formats
    ("", r"[（），：Ａ-Ｊ]", lambda sign: unicodedata.normalize("NFKC", sign.group())),
    (
        "",
        r"(?:(?:正确)?(?:答案|选项|答え|정답)(?:是|为|选|は|은)?|(?:故|所以|因此|应)?(?<!不)选(?:择|项)?)\s{0,2}[:：]?\s{0,2}"
        r"(?=[*(（]{0,3}[A-J])",
        "answer: ",
    ),
    (
        "",
        r"(?i)\b(?:(?:(?:richtige )?antwort|lösung) (?:ist|lautet)|respuesta (?:correcta )?es(?: la opción)?"
        r"|réponse (?:correcte )?est|risposta (?:corretta )?è)(?!\w)",
        "answer is",
    ),
    ("", r"(?i)\b(?:antwort|lösung|respuesta|réponse|risposta|ответ) ?:|<answer>", "answer:"),
    ("。", "。", "."),
    ("’", "’", "'"),
    ("\\", r"\\(?:text|math)(?:bf|rm|it)?\{([^{}]*)\}|\\[ ,()\[\]]", r"\1 "),
    ("", r"[*$`\"“”„‘«»]", ""),
    ("[", r"\[([A-J])\]", r"(\1)"),
    ("'", r"'\(?([A-J])\)?\.?'", r"\1"),
)
_NEXT = r"(?: ?,? ?(?i:and) ?| ?[,;/&+]? ?)"  # between the labels of several options, for texts without repeated blanks
_BOXED_SET = compile_full_match(rf"(?i:options? )?\(?[A-J1-9]\)?(?:{_NEXT}\(?(?:[A-J]|[1-9])\)?){{1,9}}\.?")
_BRACKETS = compile_quick_pattern(r"\A(?:\\\{|\[)(.*)(?:\\\}|\])\Z")
_STATED_SET = compile_quick_pattern(
    r"(?i:answers?|choices?|options?) ?(?i:is|are|:|=) ?(?i:options? )?"
    rf"(\(?[A-J]\)?(?:{_NEXT}\(?[A-J]\)?){{1,9}}+)(?![a-zA-Z']| ?,? ?(?i:or)\b)"
)
_SET_LABEL = compile_quick_pattern(r"(?<![a-zA-Z])(?:[A-J](?![b-z])|[1-9])|(?<=[A-J])[A-J]")


def extract_choice(text: str) -> str | None:
    r"""Return the option that a response chose: ``\boxed{C}``, ``\boxed{(C) text}``, or else the last ``ANSWER: C``.

    A box without an option's label counts only if no other answer is stated. "A or B" is no choice.

    >>> [extract_choice(text) for text in (r"\boxed{(C) blue}", "ANSWER: A, no, ANSWER: B", "It is A, I think")]
    ['C', 'B', None]
    >>> [extract_choice(text) for text in (r"\boxed{x^2} Answer: D", "故选：B", "Die Antwort ist B.")]
    ['D', 'B', 'B']
    """
    boxed, text = extract_boxed(text), rewrite(text, _PLAIN)
    stated = _stated(text)
    if boxed is not None:
        return choice_in(boxed, stated)
    if stated is None and (concluded := _CONCLUDED.search(text)):
        return concluded["named"] or concluded["last"] or concluded["fitting"]
    if stated is None and _ALONE(text) and (named := choice_in(text)) in LETTERS:
        return named
    return stated


def choice_in(answer: str, stated: str | None = None) -> str:
    """Return the option that a bare answer, such as the content of a box, names; ``stated`` is the other answer.

    >>> choice_in("(C) blue"), choice_in("Option B"), choice_in("blue")
    ('C', 'B', 'blue')
    """
    content = _OPTION.sub("", " ".join(TEXT.sub(r"\1", normalize(answer)).split()))
    if letter := _LETTER("".join(content.split())):
        label = letter.group(1).upper()
        return label if label.isalpha() or not stated else stated  # a number is more often a value than a position
    if first := _WITH_TEXT(content):
        label = "label" if first["label"] else "bare"
        behind = content[first.end(label) :]
        if _SEVERAL.match(behind):
            return content
        if not (_TAKEN_BACK.match(behind) or (_has_second(first) if first["label"] else _SENTENCE.match(behind))):
            return first[label]
    return _stated(content) or stated or content


def label_with_text(content: str) -> tuple[str, str] | None:
    """Split ``(C) blue`` or ``C blue`` into the label and the option's text; None for anything else.

    >>> label_with_text("(C) blue"), label_with_text("C. E. coli"), label_with_text("blue")
    (('C', 'blue'), ('C', 'E. coli'), None)
    """
    match = _WITH_TEXT(content)
    return (match["label"] or match["bare"], match["text"] or match["behind"]) if match else None


def _has_second(first: Match) -> bool:
    """Return whether another option, written as the first one, follows: the next one, or one behind a comma or "or"."""
    opening, label, end, text = first.group("open", "label", "end", "text")
    if f" {opening}{chr(ord(label) + 1)}{end} " in f" {text} ":
        return True
    return (opening, end) in _SECOND.findall(text) and not _REFERENCE.search(text)


def _stated(text: str) -> str | None:
    """Return the last "Answer: C" in a text that is not taken back; None if it states several options.

    "The incorrect option is C" counts where nothing else is stated: a question may ask for it.
    """
    last: dict[bool, Match] = {}
    for stated in _STATED.finditer(text):
        if _is_statement(stated):
            last[bool(_OF_WRONG.search(_ahead(stated)))] = stated
    chosen = last.get(False) or last.get(True)
    if chosen is None or (False not in last and (chosen["noun"] or "answer").lower() == "answer"):
        return None
    return None if _SEVERAL.match(_behind(chosen)) else chosen["label"].upper()


def text_behind(text: str) -> str | None:
    """Return what stands in the line behind the label of the last "Answer: C", if there is something.

    >>> text_behind("Answer: (B) **Paris**."), text_behind("It is B")
    ('Paris', None)
    """
    text = rewrite(text, _PLAIN)
    stated = list(_STATED.finditer(text))
    behind = text[stated[-1].end("label") :].partition("\n")[0] if stated else ""
    return behind.strip(" .:;,-)]}\\") or None


def _is_statement(stated: Match) -> bool:
    ahead, behind, has_sign = _ahead(stated), _behind(stated), stated["verb"] in (":", "=")
    if _TAKEN_BACK.match(behind) or _SUPPOSED.search(ahead) or (has_sign and _NOT.search(ahead)):
        return False
    return has_sign if stated["label"].islower() else not (stated["label"] in "AI" and _WORD_FOLLOWS.match(behind))


def _ahead(stated: Match) -> str:
    return stated.string[max(0, stated.start() - 24) : stated.start()]


def _behind(stated: Match) -> str:
    return stated.string[stated.end("label") : stated.end("label") + 80]


def extract_choices(text: str) -> str | None:
    r"""Return the options that a response chose, in the order of the alphabet: of the last box, or else as last stated.

    >>> [extract_choices(text) for text in (r"\boxed{C, A}", r"\boxed{AC}", "The answers are A and C.", r"\boxed{C}")]
    ['A, C', 'A, C', 'A, C', 'C']
    """
    boxed = extract_boxed(text)
    if boxed is not None:
        content = _BRACKETS.sub(r"\1", " ".join(TEXT.sub(r" \1 ", normalize(boxed)).split()))
        listed = [content] if _BOXED_SET(content) else []
    else:
        listed = _STATED_SET.findall(" ".join(rewrite(text, _PLAIN).split()))
    return SEPARATOR.join(sorted(set(_SET_LABEL.findall(listed[-1])))) if listed else extract_choice(text)


def same_choices(answer: str, gold: str) -> bool:
    """Return whether two sets of labels are the same; gold answers 1 to 10 also accept the letters in these positions.

    A digit against a gold letter is wrong, because it is more often an option's value than its position.

    >>> [same_choices(*pair) for pair in (("A, C", "A, C"), ("A, C", "1, 3"), ("A", "A, C"), ("C", "3"), ("3", "C"))]
    [True, True, False, True, False]
    """
    labels = gold.split(SEPARATOR)
    return set(answer.split(SEPARATOR)) in (set(labels), {POSITIONS.get(label, label) for label in labels})
