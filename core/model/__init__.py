"""What all packages share about a model: its files, prompts, tokens and manifest, and where it comes from."""
