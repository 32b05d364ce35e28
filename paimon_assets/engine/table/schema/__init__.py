"""Changes of a table's schema, checked before they are made."""
