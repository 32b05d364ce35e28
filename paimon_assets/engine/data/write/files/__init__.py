"""Data files as they are written: rolled at their size, with statistics, file indexes and hash
indexes.
"""
