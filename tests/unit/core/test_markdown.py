"""Texts of others inside Markdown."""

import pytest

from core.text.markdown import WORD_JOINER, escape_markdown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![x](https://evil.example/a.png)", "![x\\](https://·evil.example/a.png)"),
        ("[x](javascript:alert(1))", "[x\\](javascript:alert(1))"),
        ("[x][y] [y]: /files", "[x\\][y] [y\\]: /files"),
        ("<img src=x>", "&lt;img src=x&gt;"),
        ("WWW.evil.example and a@evil.example", "WWW.·evil.example and a@·evil.example"),
        ("a | b\n\n# c", "a \\| b # c"),
        ("[+91.3, +97.8] luffy_reinforce_pro", "[+91.3, +97.8] luffy_reinforce_pro"),
        ("_x_ *y* `z` ~w~ $v$", "\\_x\\_ \\*y\\* \\`z\\` \\~w\\~ \\$v\\$"),
    ],
)
def test_nothing_is_interpreted_and_plain_texts_stay(text, shown):
    assert escape_markdown(text).replace(WORD_JOINER, "·") == shown
