"""Data files and index files as they are written, with their statistics."""
