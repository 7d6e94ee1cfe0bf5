"""Measures whether an incident is real, and whether a change cured it."""
