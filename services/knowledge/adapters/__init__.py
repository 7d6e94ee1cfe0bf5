"""Qdrant in the process or by URL, the embedder, HTTP."""
