"""Targets on the Hugging Face hub: pushed with a card, and pulled with the digest that they were pushed with."""
