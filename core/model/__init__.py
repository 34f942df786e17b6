"""What all packages share about a model: its files, prompts, tokens and manifest, and the hub it may come from."""
