"""A sealed container per run, and the rehearsal of a plan in it."""
