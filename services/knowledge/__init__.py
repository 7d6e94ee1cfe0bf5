"""What incidents taught and what people wrote: search for both, and recall of fixes that were seen to work."""
