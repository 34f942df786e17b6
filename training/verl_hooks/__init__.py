"""Hooks for mixed-policy training on verl's V1 trainer, one per file.

``prompt_trainer`` plans what a batch asks, ``agent_loop`` makes the samples (on- and off-policy), ``reward`` scores
them, ``replay_buffer`` drops groups that teach nothing or lost a sample, ``trainer`` computes advantages and rollout
correction over the whole ``batch``, ``loss`` is what each worker differentiates, ``metrics`` is what a step reports;
``supervised`` trains without rollouts. The formulas are in training.algorithms.
"""
