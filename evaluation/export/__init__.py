"""Evaluations in the formats of other programs: logs of Inspect, and tasks of lm-evaluation-harness."""
