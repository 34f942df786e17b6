"""Asynchronous rollouts: vLLM samples while the actor learns, with weights that are some updates old.

``trainers`` makes verl's two asynchronous trainers mixed-policy ones; ``vllm_client`` finishes samples that an update
of the weights interrupted, and measures how long vLLM had nothing to do. docs/asynchronous.md has the formulas.
"""
