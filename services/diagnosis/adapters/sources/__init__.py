"""Where facts come from: metrics, logs, changes, knowledge, a health endpoint."""
