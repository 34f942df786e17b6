"""The audit of the baselines: one training by the product, a plain loop and TRL, however its updates are cut."""
