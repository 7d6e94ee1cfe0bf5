"""Fixes as branches: commits by git plumbing, pushes, pull and merge requests."""
