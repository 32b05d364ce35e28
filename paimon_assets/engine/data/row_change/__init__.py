"""Deleting and updating rows of the files of one bucket."""
