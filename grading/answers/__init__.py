"""From a response or a row to an answer: where it stands, how it is spelled, and which options it names."""
