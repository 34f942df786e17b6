"""Which policy is in use: the rules of promotion, the records of decisions, and what may be removed."""
