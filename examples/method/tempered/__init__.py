"""A loss and the recipe that trains with it."""
