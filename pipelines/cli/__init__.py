"""The commands behind make."""
