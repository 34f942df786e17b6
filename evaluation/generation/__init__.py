"""Draw samples of a model with vLLM or through an endpoint."""
