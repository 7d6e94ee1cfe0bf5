"""A plan brought to its target: files by splicing, everything else by the target's runtime."""
