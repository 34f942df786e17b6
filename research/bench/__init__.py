"""Measurements of speed and memory, which call the product as a user does; ``luffy research bench`` runs them."""
