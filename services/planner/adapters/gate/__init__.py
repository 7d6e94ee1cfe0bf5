"""The gate of code repair: candidates of every origin are run, judged, ranked and told in the same way."""
