"""Generate the reference pages from the settings, options, recipes, definitions and commands.

``python -m pipelines.reference`` writes them as Markdown; `docs/site/hooks.py` asks for them when the site is built.
"""
