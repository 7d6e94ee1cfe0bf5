"""The gateway: the only room that faces people. REST, live stream, decisions."""
