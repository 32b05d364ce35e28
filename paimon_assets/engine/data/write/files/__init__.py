"""Data files as they are written: rolled by size, with statistics, file and hash indexes."""
