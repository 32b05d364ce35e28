"""Asset checks: rows, keys, files, schemas, pandera."""
