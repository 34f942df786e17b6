"""The cost of a training: the estimate before it starts, the amount spent, and the budget that ends it."""
