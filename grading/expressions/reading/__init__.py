"""Read a normalised answer completely into a form: its parts, its values, and the formulas in these."""
