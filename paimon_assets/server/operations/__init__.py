"""The operations of a REST catalog, by group; `all_operations` lists them."""
