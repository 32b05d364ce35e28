"""Data files as they are written: rolled by size, with statistics and file indexes."""
