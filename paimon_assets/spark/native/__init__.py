"""Files that Spark's own readers read, and where both mean the same rows."""
