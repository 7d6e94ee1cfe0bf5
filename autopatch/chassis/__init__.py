"""Plumbing that every room stands on: bus, event log, runner, settings, telemetry, model port, outside clients."""
