"""The configuration of a training: its files, and the keys that a run reads."""
