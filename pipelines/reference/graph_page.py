"""Generate the page about the Dagster definitions: assets, checks, jobs, schedules and sensors."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import dagster as dg

from evaluation.settings import DifficultySettings, GenerateSettings
from pipelines.definitions.factory import build_defs
from pipelines.reference.page_markdown import code, page, prose, table
from pipelines.settings import DEFAULT, load


def graph_page() -> str:
    """Describe all definitions of the profile ``embedded``, and the assets that only some profiles have."""
    more = {
        "generate": GenerateSettings(teacher="teacher", problems="problems.jsonl"),
        "difficulty": DifficultySettings(),
    }
    defs = build_defs(load(DEFAULT).model_copy(update=more))
    specs = sorted(defs.resolve_all_asset_specs(), key=lambda spec: (str(spec.group_name), spec.key))
    groups = [
        f"### {group}\n\n{table(('asset', 'what it is'), [_row(spec.key.to_user_string(), spec) for spec in members])}"
        for group, members in groupby(specs, key=lambda spec: spec.group_name)
    ]
    checks = [check for item in defs.asset_checks or [] for check in item.check_specs]
    return page(
        "Assets and checks",
        "What the Dagster UI shows with the profile `embedded`; another suite has other benchmarks below `evals` and "
        "`ood`. `targets/generated` and `targets/difficulty` are there if the profile has the sections `generate` and "
        "`difficulty`. Select assets with `luffy run --select`, for example `--select '+key:targets/train'`.",
        "## Assets",
        *groups,
        "## Checks",
        "Checks with the severity *error* stop a run before it trains.",
        table(
            ("check", "of", "severity", "what it checks"),
            [
                (code(check.name), code(check.asset_key.to_user_string()), _severity(check), prose(_described(check)))
                for check in sorted(checks, key=lambda check: check.name)
            ],
        ),
        *[
            f"## {title}\n\n{table(('name', 'what it does'), [_row(item.name, item) for item in items])}"
            for title, items in (("Jobs", defs.jobs), ("Schedules", defs.schedules), ("Sensors", defs.sensors))
            if isinstance(items, Iterable)
        ],
    )


def _row(name: str, item: Any) -> tuple[str, str]:
    return code(name), prose(_described(item))


def _described(item: Any) -> str:
    if not item.description:
        raise ValueError(f"a definition without a description: {item}")
    return item.description


def _severity(check: dg.AssetCheckSpec) -> str:
    return str((check.metadata or {}).get("severity", "error"))
