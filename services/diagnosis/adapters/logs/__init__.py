"""What the lines of a log say."""
