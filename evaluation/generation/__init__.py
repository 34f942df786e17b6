"""Samples of a model, drawn by vLLM."""
