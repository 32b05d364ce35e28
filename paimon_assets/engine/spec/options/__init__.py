"""Table options: one typed value each, beside their kin; `all_options` is the index."""
