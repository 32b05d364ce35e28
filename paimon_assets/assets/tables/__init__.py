"""A table as an asset: the decorator, the IO manager, audits, write modes."""
