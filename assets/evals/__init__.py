"""The assets of scores: evals and ood of the base and the policy, the contest, and the saved checkpoints."""
