"""The policy as an operator writes it."""
