"""Runs of a repository's tests: snapshots in, reports out; diffs through policy and git; images with dependencies."""
