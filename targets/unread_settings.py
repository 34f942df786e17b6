"""Settings that have no effect beside the others: `luffy targets` refuses one that its options name."""

import os
from collections.abc import Collection

from core.model.model_folder import HUB_ID
from targets.config import PrepareConfig
from targets.source_settings import EMBEDDED, Source

OF_THE_GENERATOR = ("embedded_rows", "embedded_split", "embedded_terse")
OF_THE_HUB = ("subset", "revision")


def explain_unread(config: PrepareConfig, named: Collection[str]) -> str:
    """Return why one of the settings ``named`` is not read beside the others of ``config``; "" if all are read."""
    sources = config.sources
    read = {
        **dict.fromkeys(OF_THE_GENERATOR, any(source.path == EMBEDDED for source in sources)),
        **dict.fromkeys(OF_THE_HUB, any(map(_is_of_the_hub, sources))),
        "mapping": any(_has_columns(source) for source in sources),
        "split": any(_has_columns(source) for source in sources),
        "ledger_drop": config.ledger is not None,
        "compression_min_chars": config.min_compression_ratio > 0,
    }
    reasons = {
        **dict.fromkeys(OF_THE_GENERATOR, f"no source is {EMBEDDED!r}, whose generator reads it"),
        **dict.fromkeys(OF_THE_HUB, "no source is a dataset of the hub"),
        "mapping": "no source has columns to choose",
        "split": "no source has splits",
        "ledger_drop": "there is no ledger",
        "compression_min_chars": "min_compression_ratio 0 rejects no loop",
    }
    unread = next((name for name in named if not read.get(name, True)), None)
    return f"{unread}: it would change nothing: {reasons[unread]}; leave it out" if unread else ""


def _has_columns(source: Source) -> bool:
    return source.path != EMBEDDED and not source.task


def _is_of_the_hub(source: Source) -> bool:
    return bool(HUB_ID(source.path)) and not os.path.exists(source.path)
