"""What verl and vLLM need in order to run on a device that they do not support themselves."""
