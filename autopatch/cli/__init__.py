"""The `autopatch` command line."""
