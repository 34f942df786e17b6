"""Measurements of trainings: their algorithms, steps, rollouts, ledgers and explanations."""
