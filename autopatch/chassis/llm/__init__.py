"""The model layer: one port, one adapter, typed answers, a budget per incident. See README.md."""
