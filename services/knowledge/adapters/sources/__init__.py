"""What people wrote, read and checked."""
