"""Verifiers: each takes a response and a gold answer and returns a grade. One module per type; `spec` chooses."""
