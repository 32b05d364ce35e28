"""Types and values ⇄ Arrow and numpy."""
