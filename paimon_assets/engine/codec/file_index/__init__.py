"""File indexes: bloom filters, bitmaps and bit slices of one data file's columns."""
