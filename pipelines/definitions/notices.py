"""Who is told when something went wrong: the log, a Slack-compatible webhook, or email. ``notify`` in the settings.

Addresses that give access (the webhook's URL, the mail server's password) come from environment variables; settings
name the variable. They are in no message, log, metadata or error.
"""

import json
import os
import re
import smtplib
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError

SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|WEBHOOK|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY", re.IGNORECASE)
SHORTEST_SECRET = 6  # characters; shorter values of such variables are switches, and common in texts
TRIES = 3
PAUSE_SECONDS = 1.0
TIMEOUT_SECONDS = 10.0


class NotifySettings(BaseModel):
    """Section ``notify``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    channel: Literal["log", "webhook", "email"] = Field(default="log", description="besides the log")
    webhook_variable: str = Field(default="LUFFY_WEBHOOK_URL", description="environment variable that holds the URL")
    mail_host: str = "localhost"
    mail_port: int = Field(default=25, ge=1, le=65535)
    mail_starttls: bool = False
    mail_user: str | None = None
    mail_password_variable: str = Field(default="LUFFY_MAIL_PASSWORD", description="environment variable")
    mail_from: str = "luffy@localhost"
    mail_to: tuple[str, ...] = ()


@dataclass(frozen=True)
class Notice:
    """What happened, in one line, and the rest."""

    subject: str
    text: str


def send(settings: NotifySettings, notice: Notice, environment: Mapping[str, str] | None = None) -> None:
    """Deliver ``notice`` over the channel of ``settings``; nothing to do for ``log``, which the caller writes.

    Tries three times. Raises InputError, without the address, where a variable is missing or nobody takes it.
    """
    environment = os.environ if environment is None else environment
    clean = Notice(redact(notice.subject, environment), redact(notice.text, environment))
    match settings.channel:
        case "webhook":
            url = _secret(settings.webhook_variable, "notify.webhook_variable", environment)
            _try(lambda: _post(url, clean), f"the webhook in {settings.webhook_variable}")
        case "email":
            if not settings.mail_to:
                raise InputError("notify.mail_to: nobody to write to; give addresses, or notify.channel: log")
            password = None
            if settings.mail_user:
                password = _secret(settings.mail_password_variable, "notify.mail_password_variable", environment)
            where = f"the mail server {settings.mail_host}:{settings.mail_port}"
            _try(lambda: _mail(settings, password, clean), where)
        case "log":
            pass


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """``text`` without the values of variables whose names say that they are secret."""
    environment = os.environ if environment is None else environment
    secrets = {
        value
        for name, value in environment.items()
        if SECRET_NAME.search(name) and not name.endswith("_VARIABLE") and len(value) >= SHORTEST_SECRET
    }
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, "[secret]")
    return text


def _secret(variable: str, setting: str, environment: Mapping[str, str]) -> str:
    if not (value := environment.get(variable)):
        raise InputError(f"{setting}: variable {variable} is not set where the code location runs; set it there")
    return value


def _try(deliver: Callable[[], None], where: str) -> None:
    for attempt in range(1, TRIES + 1):
        try:
            return deliver()
        except (OSError, ValueError) as error:
            # The library's text may quote the address, so only its kind and status are passed on.
            status = getattr(error, "code", getattr(error, "smtp_code", None))
            said = f"{type(error).__name__}{f' {status}' if status else ''}"
            if attempt == TRIES:
                raise InputError(f"{where} does not take the notice: {said}; look at its address and at it") from None
            time.sleep(PAUSE_SECONDS)


def _post(url: str, notice: Notice) -> None:
    if not url.startswith(("https://", "http://")):
        raise ValueError("not an HTTP address")
    body = json.dumps({"text": f"{notice.subject}\n{notice.text}"}).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS).close()


def _mail(settings: NotifySettings, password: str | None, notice: Notice) -> None:
    message = EmailMessage()
    message["Subject"] = " ".join(notice.subject.split())
    message["From"] = settings.mail_from
    message["To"] = ", ".join(settings.mail_to)
    message.set_content(notice.text)
    with smtplib.SMTP(settings.mail_host, settings.mail_port, timeout=TIMEOUT_SECONDS) as server:
        if settings.mail_starttls:
            server.starttls()
        if settings.mail_user and password:
            server.login(settings.mail_user, password)
        server.send_message(message)
