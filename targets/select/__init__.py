"""Select the traces that stay for each problem, and the problems to train on."""
