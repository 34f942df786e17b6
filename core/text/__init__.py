"""Safe handling of texts from people and models: parse, match, shorten and escape them."""
