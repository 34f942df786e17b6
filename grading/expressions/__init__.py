"""Read the text of an answer completely, and compare two readings exactly."""
