"""Defect jobs: places in the code stand where causes do for a running target."""
