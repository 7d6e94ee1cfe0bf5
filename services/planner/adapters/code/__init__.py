"""Code faults of running targets: the same search as for jobs, begun by a runbook that says so."""
