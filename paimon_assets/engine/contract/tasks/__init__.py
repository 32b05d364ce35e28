"""Tasks that are neither reads of splits nor writes of rows, as values and bytes."""
