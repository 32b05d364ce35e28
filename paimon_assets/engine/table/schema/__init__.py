"""Changes of a table's schema, looked at before they are made, and schemas taken from rows."""
