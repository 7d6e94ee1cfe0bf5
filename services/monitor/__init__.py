"""Receives alerts, finds lost ones again, and opens incidents."""
