"""What `redact` keeps out of texts."""

from core.text.secrets import redact


def test_secrets_are_known_by_the_names_of_their_variables():
    environment = {
        "HF_TOKEN": "hf_12345678",
        "LUFFY_WEBHOOK_URL": "https://x/yyy",
        "PASSWORD_LENGTH": "8",
        "A": "bbbbbb",
    }
    assert redact("hf_12345678 https://x/yyy 8 bbbbbb", environment) == "[secret] [secret] 8 bbbbbb"


def test_passwords_in_addresses_of_any_variable_are_secret_as_written_and_as_meant():
    environment = {"MLFLOW_TRACKING_URI": "https://ada:pa%24%24word@tracker.example/x", "HOME": "/root"}
    text = "https://ada:pa%24%24word@tracker.example/x refused pa%24%24word and pa$$word of /root"
    assert redact(text, environment) == "https://[secret]@tracker.example/x refused [secret] and [secret] of /root"


def test_an_address_without_a_password_stays():
    text = "https://example.org/a?b=c@d, file:///srv/x@y and ops@example.org"
    assert redact(text, {"URL": text}) == text
