"""A small payment service with a bounded pool of database connections: what the demo breaks and heals."""
