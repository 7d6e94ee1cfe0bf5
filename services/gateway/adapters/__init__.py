"""Where the gateway touches the world: tokens, HTTP, the live stream, the knowledge room's door."""
