"""Reads of splits: files as they are, merged, or the difference of two states."""
