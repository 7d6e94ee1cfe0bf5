"""The words that rooms exchange: events, actions, plans, targets and the lifecycle table. pydantic is the only dependency."""
