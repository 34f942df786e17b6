"""Measure the product: comparisons of recipes, recorded runs, speed, and the makers of the shipped weights.

Nothing imports this package. ``luffy research`` and ``python -m research`` list its commands.
"""
