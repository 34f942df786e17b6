"""OpenAI-compatible endpoints of a teacher or a judge: their addresses, and the key for them."""

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from core.errors import InputError, first_line

if TYPE_CHECKING:
    import openai

API_KEY = "OPENAI_API_KEY"


def address_problem(url: str) -> str | None:
    """Return what is wrong with the address of an endpoint; None if nothing is.

    >>> address_problem("http://localhost:8000/v1"), address_problem("https://sk-1@host/v1")
    (None, 'it holds a user or a password; give the key in the variable OPENAI_API_KEY')
    """
    expected = "expected an address such as http://localhost:8000/v1"
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            return expected
    except ValueError:  # brackets that do not close, or a port that is no number
        return expected
    if "@" in parts.netloc:
        return f"it holds a user or a password; give the key in the variable {API_KEY}"
    return None


def endpoint_of(text: str, where: str = "") -> tuple[str, str] | None:
    """Return the model and the address that ``MODEL@URL`` names; None for any other name.

    >>> endpoint_of("Qwen/Qwen3-8B@http://localhost:8000/v1")
    ('Qwen/Qwen3-8B', 'http://localhost:8000/v1')

    A slash at the end is left out: it names no other endpoint, and the address is part of the identity of samples.

    Args:
        where: How the message begins; it never shows the address.

    Raises:
        InputError: the name is empty, or `address_problem` has a reason.
    """
    name, separator, rest = text.partition("@http")
    if not separator:
        return None
    problem = address_problem(url := f"http{rest}".rstrip("/"))
    if not name or problem:
        reason = f": the URL: {problem}" if problem else ""
        raise InputError(
            f"{where}got {name}@…, expected MODEL@URL, such as Qwen/Qwen3-8B@http://localhost:8000/v1{reason}"
        )
    return name, url


def endpoint_key() -> str:
    """Return the key, without the blanks around it that a file may have left; "none" if the variable has none.

    Raises:
        InputError: it has characters that a request cannot carry.
    """
    key = os.environ.get(API_KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"variable {API_KEY}: it holds characters that no key has; copy the key again")
    return key or "none"


def open_client(url: str, key: str | None = None, **options: Any) -> "openai.OpenAI":
    """Return a client of the endpoint at ``url``, by default with `endpoint_key`.

    Raises:
        InputError: the address, the key, or a variable that names a proxy cannot be used.
    """
    import openai

    key = key or endpoint_key()
    try:
        return openai.OpenAI(base_url=url, api_key=key, **options)
    except Exception as error:  # whatever its HTTP library raises
        variables = "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
        raise InputError(f"{url}: no connection can be made: {first_line(error)}; look at {variables}") from error
