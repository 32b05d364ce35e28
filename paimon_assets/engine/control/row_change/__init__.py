"""Deleting and updating rows: which files a change must look at, and which go as wholes."""
