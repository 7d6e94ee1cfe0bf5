"""Code repair: candidates from lessons, single edits and a model, cheapest first."""
