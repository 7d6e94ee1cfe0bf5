"""Who listens to a test tool, and tells each test as it ends."""
