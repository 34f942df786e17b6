"""``python -m pipelines.reference``: all pages as one JSON object on standard output, by their path in the site."""

import json
import sys

from pipelines.reference.commands_page import commands_page
from pipelines.reference.graph_page import graph_page
from pipelines.reference.settings_pages import profiles_page, settings_page
from pipelines.reference.training_pages import api_page, metrics_page, options_page, recipes_page

PAGES = {
    "reference/commands.md": commands_page,
    "reference/settings.md": settings_page,
    "reference/profiles.md": profiles_page,
    "reference/training-options.md": options_page,
    "reference/recipes.md": recipes_page,
    "reference/metrics.md": metrics_page,
    "reference/assets.md": graph_page,
    "reference/api.md": api_page,
}

if __name__ == "__main__":
    json.dump({path: page() for path, page in PAGES.items()}, sys.stdout)
