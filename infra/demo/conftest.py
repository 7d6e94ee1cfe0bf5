"""The tests of the demo service's own repository run there; one that a runbook brings is red on purpose."""

collect_ignore = ["repository", "runbooks"]
