"""Code faults of running targets: their source as a job, the proof of a patch, an image with it, and a branch."""

PATCHED = "org.autopatch.patched"
"""Label of images with a patch: SHA-256 over what they were made of."""
