"""Per-trace filters, and the engines that run them."""
