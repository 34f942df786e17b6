"""Remove secrets from texts that others read: values of secret variables, and passwords in addresses."""

import os
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from core.text.patterns import compile_quick_pattern

SECRET = "[secret]"
SECRET_NAME = compile_quick_pattern(
    r"(?i)TOKEN|SECRET|PASSW|WEBHOOK|NOTIFY_URL|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY"
)
SHORTEST_SECRET = 6  # characters; shorter values of such variables are switches, and common in texts
USER_INFO = compile_quick_pattern(
    r"(?<=://)[^\s/?#@'\"]+(?=@)"
)  # user:password of an address, or a token that stands for both


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return ``text`` without the values of secret variables, and without the user and password of any address.

    A variable is secret if its name says so. The password of an address in any other variable, such as
    MLFLOW_TRACKING_URI, is secret too, also where it appears alone.

    >>> redact("no answer from https://ada:pa55word@tracker.example", {})
    'no answer from https://[secret]@tracker.example'
    >>> redact("login failed for pa55word", {"DATABASE_URL": "postgresql://ada:pa55word@db.example/runs"})
    'login failed for [secret]'
    """
    for value in sorted(set(_secrets(os.environ if environment is None else environment)), key=len, reverse=True):
        if len(value) >= SHORTEST_SECRET:
            text = text.replace(value, SECRET)
    return USER_INFO.sub(SECRET, text)


def _secrets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if SECRET_NAME.search(name) and not name.endswith(("_VARIABLE", "_VARIABLES")):
            yield value.strip()
        if "://" in value:
            for info in USER_INFO.findall(value):
                password = info.partition(":")[2]
                yield from (password, unquote(password))
