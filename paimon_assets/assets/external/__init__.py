"""Tables that others write, as assets."""
