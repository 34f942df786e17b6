"""Export policies: model card, upload, checkpoints as Hugging Face folders, and GGUF files as model folders."""
