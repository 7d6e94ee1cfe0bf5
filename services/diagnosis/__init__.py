"""Gathers evidence about an incident and ranks what may have caused it."""
