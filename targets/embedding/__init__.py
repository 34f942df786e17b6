"""Compare problems by the vectors of an embedding model, an optional stage of a preparation."""
