"""Changes of a schema: as values, as JSON, their rules, and how two schemas differ."""
