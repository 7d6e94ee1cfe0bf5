"""Repositories, read and cut into chunks that search finds."""
