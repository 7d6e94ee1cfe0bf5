"""Defect jobs: runs of tests in the sandbox stand where signals do for a running target."""
