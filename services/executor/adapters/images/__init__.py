"""Images for a repository: the toolchain's own, or one with the repository's dependencies."""
