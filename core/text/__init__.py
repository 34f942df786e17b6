"""Text that people and models write: parsed and matched in bounds, shortened and escaped before it is shown."""
