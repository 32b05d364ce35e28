"""Types and values ⇄ Arrow and numpy: the only mapping of Paimon's types to Arrow's."""
