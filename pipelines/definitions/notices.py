"""Notices of failed runs: to the log, and to every address in the section ``notify`` of the settings.

Addresses give access, so each is the value of an environment variable that the settings name: an Apprise URL
(https://appriseit.com/services/), such as ``slack://…`` or ``mailto://user:password@host?to=…``, or the plain ``https``
address of a Slack-compatible webhook. No message, log, metadata or error contains such an address.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from core.errors import InputError
from core.text.secrets import redact
from pipelines.settings import NotifySettings

TRIES = 3
PAUSE_SECONDS = 1.0
# Apprise's own JSON has other keys than the `text` that Slack-compatible webhooks read.
WEBHOOK_FIELDS = "?:message=text&:title=&:version=&:attachments=&:type="


@dataclass(frozen=True)
class Notice:
    """A message: one line that says what happened, and the details."""

    subject: str
    text: str


def send(settings: NotifySettings, notice: Notice, environment: Mapping[str, str] | None = None) -> list[str]:
    """Deliver ``notice`` to every address of ``settings``, and return why it did not reach some of them.

    It tries each address three times, whatever becomes of the others. No reason shows an address.
    """
    environment = os.environ if environment is None else environment
    clean = Notice(redact(notice.subject, environment), redact(notice.text, environment))
    failures: list[str] = []
    for variable in settings.url_variables:
        try:
            _deliver(environment.get(variable), clean, variable)
        except InputError as error:
            failures.append(f"notify.url_variables: {error}")
    return failures


def _deliver(url: str | None, notice: Notice, variable: str) -> None:
    """Deliver ``notice`` to the address in ``variable``; InputError if there is none, or it accepts nothing."""
    import apprise

    if not url:
        raise InputError(f"variable {variable} is not set where the code location runs; set it there")
    title, body = notice.subject, notice.text
    if url.startswith(("http://", "https://")):
        url = url.replace("http", "json", 1) + WEBHOOK_FIELDS
        title, body = "", f"{notice.subject}\n{notice.text}"
    # Apprise would log a text without "://" as it stands.
    server = apprise.Apprise.instantiate(url) if "://" in url else None
    if not isinstance(server, apprise.NotifyBase):
        raise InputError(
            f"variable {variable} holds no address that Apprise knows: see https://appriseit.com/services/"
        )
    for attempt in range(1, TRIES + 1):
        if server.notify(body=body, title=title):
            return
        if attempt < TRIES:
            time.sleep(PAUSE_SECONDS)
    raise InputError(f"the address in {variable} does not take the notice; check the address and what answers there")
