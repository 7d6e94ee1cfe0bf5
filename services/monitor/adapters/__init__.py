"""What the monitor touches: webhooks, Alertmanager, Prometheus."""
