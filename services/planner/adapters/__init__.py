"""The model as a source of plans."""
