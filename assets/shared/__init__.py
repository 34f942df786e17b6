"""Code that the assets share: storage, options, the training interpreter, metadata, versions."""
