"""What people's tools on this machine ask."""
