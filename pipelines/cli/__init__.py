"""The commands behind `luffy` and make."""
