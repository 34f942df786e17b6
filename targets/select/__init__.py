"""Which of the traces of one problem stay, and which problems are trained on."""
