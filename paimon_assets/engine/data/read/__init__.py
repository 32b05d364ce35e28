"""Reads of splits: files as they are, merged, or the difference of two states.

Concept → modules:
    which of the three                      split_read
    files as they are, deleted rows         data_files, split_read
    columns of a row in several files       split_read
    sections, merged                        merge_file_split_read
    filter, limit, columns of the result    row_stage
"""
