"""Which policy is in use: the rule of promotion, and the records of decisions."""
