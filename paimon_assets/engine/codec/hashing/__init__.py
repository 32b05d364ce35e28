"""Hashes of rows and texts: bucket numbers, Hive's and XXH64."""
