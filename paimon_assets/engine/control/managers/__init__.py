"""The numbered and named files of a table: snapshots, schemas, tags, branches, consumers."""
