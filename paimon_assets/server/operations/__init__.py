"""The operations of a REST catalog, by group; `routes` lists them."""
