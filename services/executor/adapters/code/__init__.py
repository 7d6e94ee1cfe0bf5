"""Code faults of running targets: their source as a job, the proof of a patch, an image with it, and a branch."""
