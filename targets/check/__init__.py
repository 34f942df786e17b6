"""Quality checks on prepared targets."""
