"""From ranked causes to one typed plan with undo, or to a clear escalation."""
