"""Segments as values: external files that are part of a table in place, and the options of text
files.
"""
