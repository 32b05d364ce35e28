"""Changes of a source → rows of one table: the steps that Spark tasks can do as well.

Concept → modules:
    columns left out, renamed, computed           record_columns
    changes → images of rows                      change_images
    positions in logs, and how far they are       log_positions
    records of topics → changes                   topic_changes
    a range of offsets → rows, and a report       range_rows
"""
