"""Files that Spark's own readers read, and plain scans that tasks read with the same rows."""
