"""What the validator touches: Prometheus, a health endpoint, the cores of a local model."""
