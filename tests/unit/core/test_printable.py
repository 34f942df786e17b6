"""What a command prints of data is no command to the terminal."""

from core.cli import exit_status, say
from core.errors import InputError

HOSTILE = "\x1b]0;title\x07 7 \udcff\u202e9 \x9b2J é\u200d\n\t."
SHOWN = r"\x1b]0;title\x07 7 \udcff\u202e9 \x9b2J " + "é\u200d\n\t."


def test_control_characters_are_written_as_escapes(capsys):
    def fail() -> None:
        say(HOSTILE)
        raise InputError(HOSTILE)

    assert exit_status(fail) == 2
    assert capsys.readouterr() == (f"{SHOWN}\n", f"error: {SHOWN}\n")
