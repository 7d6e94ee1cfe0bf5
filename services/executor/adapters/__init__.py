"""Everything of the executor that touches the world."""
