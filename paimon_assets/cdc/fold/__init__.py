"""Changes of a source → rows of one table: what is done where changes are read, also in tasks.

Concept → modules:
    columns left out, renamed, computed           record_columns
    changes → images of rows                      change_images
    positions in logs, and how far they are       log_positions
    records of topics → changes                   topic_changes
    a range of offsets → rows, and a report       range_rows
"""
