"""Qdrant, in this process or by URL."""
