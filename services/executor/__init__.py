"""The executor: the only room that touches targets."""
