"""What a training costs: the estimate before it starts, what it has spent, and the budget that ends it."""
