"""Segments of a table: add, show, delete, clean and refresh."""
