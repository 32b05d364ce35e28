"""Segments as values: external files of a table, and the options of text files."""
