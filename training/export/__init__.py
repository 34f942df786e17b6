"""A policy for others: its model card, its upload, and GGUF files as model folders."""

DTYPES = ("bfloat16", "float32")  # of its weights
