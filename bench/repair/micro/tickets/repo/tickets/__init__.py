"""Support tickets: how urgent they are, and which one comes next."""
