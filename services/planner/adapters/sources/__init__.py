"""What knowledge holds that helps a repair: diffs that healed the same fault, and code that is alike the failing case."""
