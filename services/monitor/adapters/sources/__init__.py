"""Where alerts come from: the webhooks of Alertmanager and Grafana, and how their words become ours."""
