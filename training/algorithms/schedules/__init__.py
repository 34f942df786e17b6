"""What changes over the steps, or from prompt to prompt, as plain numbers: no torch."""
