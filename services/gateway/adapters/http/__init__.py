"""The HTTP side: tokens, routes, the live stream, and the way to the knowledge room."""
