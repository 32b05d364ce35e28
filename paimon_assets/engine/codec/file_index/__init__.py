"""Bloom filters and bitmaps of one data file's columns, and what they say of a filter."""
