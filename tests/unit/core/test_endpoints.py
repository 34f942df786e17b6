"""Addresses of endpoints, and the key for them."""

import pytest

from core.errors import InputError
from core.model.endpoints import API_KEY, address_problem, endpoint_key, endpoint_of, open_client
from core.text.secrets import redact


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://sk-secret@host/v1", "holds a user or a password"),
        ("https://me:sk-secret@host/v1", "holds a user or a password"),
        ("http://host:abc/v1", "expected an address"),
        ("http://[::1/v1", "expected an address"),
        ("ftp://host/v1", "expected an address"),
        ("localhost:8000", "expected an address"),
        ("http://", "expected an address"),
    ],
)
def test_no_address(url: str, problem: str) -> None:
    assert problem in str(address_problem(url)) and "secret" not in str(address_problem(url))


@pytest.mark.parametrize("text", ["@http://host/v1", "m@https://sk-secret@host/v1", "m@http://host:port"])
def test_a_model_without_a_name_or_an_address_is_refused_and_its_address_is_not_shown(text: str) -> None:
    with pytest.raises(InputError, match=r"^teacher: got m?@…, expected MODEL@URL") as refused:
        endpoint_of(text, "teacher: ")
    assert "secret" not in str(refused.value)
    assert endpoint_of("org/model") is None


def test_a_file_of_certificates_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with pytest.raises(InputError, match=r"no connection can be made: .*SSL_CERT_FILE"):
        open_client("https://host/v1")


def test_the_key_has_no_blanks_around_it_and_none_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY, "sk-abcdef123456\r\n")
    assert endpoint_key() == "sk-abcdef123456"
    assert redact("Bearer sk-abcdef123456 refused") == "Bearer [secret] refused"
    monkeypatch.delenv(API_KEY)
    assert endpoint_key() == "none"
    for key in ("sk-abc\ndef", "sk-äbc"):
        monkeypatch.setenv(API_KEY, key)
        with pytest.raises(InputError, match=f"variable {API_KEY}: it holds characters that no key has") as refused:
            endpoint_key()
        assert key not in str(refused.value)


@pytest.mark.parametrize("proxy", ["socks5://localhost:1", "foo://localhost:1", "http://[::1"])
def test_a_proxy_that_cannot_be_used_is_one_message(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy)
        monkeypatch.setenv(name.lower(), proxy)
    with pytest.raises(InputError, match=r"http://host/v1: no connection can be made: .*; look at HTTP_PROXY"):
        open_client("http://host/v1")
