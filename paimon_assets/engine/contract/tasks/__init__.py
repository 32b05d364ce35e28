"""Tasks that are neither reads of splits nor writes of rows: a name, a context and bytes."""
