"""What a training is configured with: Hydra files, and which of their keys a run reads."""
