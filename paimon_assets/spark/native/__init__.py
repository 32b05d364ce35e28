"""Files that Spark's own readers read, and plain scans that tasks read where both give the same
rows.
"""
