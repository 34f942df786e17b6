"""The configuration of a training: Hydra files, and the keys that a run reads."""
