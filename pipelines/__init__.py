"""Dagster's side of the project: ``definitions`` (the code location and its settings) and ``cli`` (the commands)."""
