"""Share targets on the Hugging Face hub: push them with a card, and pull them with a check of their digest."""
