"""A REST catalog over a warehouse: `paimon-assets serve`."""
