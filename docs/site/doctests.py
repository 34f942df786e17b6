"""The examples of docstrings as blocks of code, also where no heading `Examples` stands before them."""

import re

import griffe

DOCTEST = re.compile(r"^>>> .*(?:\n(?!$).*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
