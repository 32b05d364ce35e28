"""Changes of a table's schema, checked before they are made, and schemas taken from rows."""
