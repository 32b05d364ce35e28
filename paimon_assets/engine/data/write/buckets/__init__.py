"""Rows → partition and bucket, in every bucket mode."""
