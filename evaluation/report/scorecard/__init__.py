"""The scorecard: what it compares, and how people see it."""
