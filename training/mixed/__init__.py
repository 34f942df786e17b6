"""Mixed-policy training on verl's V1 trainer: the hooks, one file a hook.

``rollout`` makes the samples (own and guided), ``reward`` scores them, ``trainer`` computes advantages and rollout
correction over the whole batch, ``loss`` is what each worker differentiates; ``supervised`` trains without rollouts.
The formulas are in training.algorithms.
"""
