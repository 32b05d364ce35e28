"""What a writer must know of a table before it writes."""
