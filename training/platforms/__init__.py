"""Where verl and vLLM run: what a device needs that they do not bring themselves."""
