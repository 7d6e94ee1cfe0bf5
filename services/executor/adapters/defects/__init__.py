"""What the executor does with incidents that are jobs."""
