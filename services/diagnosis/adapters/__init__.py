"""What the diagnosis reads: Prometheus, a git history, a health endpoint."""
