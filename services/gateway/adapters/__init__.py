"""Where the gateway touches the world: all of it over HTTP."""
