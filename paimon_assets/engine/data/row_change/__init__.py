"""Deletes, updates and merges in the files of one bucket: rewritten files or deletion vectors."""
