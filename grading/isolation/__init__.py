"""Processes that run code of others: a user's function with limits, a model's program in a sandbox."""
