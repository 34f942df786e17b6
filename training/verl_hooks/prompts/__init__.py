"""Which prompts a batch has, and what a training keeps about them from step to step."""
