"""RepeatedKeys: the keys that several rows share, as an executor counts them."""

from dataclasses import dataclass, field
from typing import Any

EXAMPLES = 20
"""Most keys that are shown."""
ROWS = "rows"
"""Name of the number of rows in an example."""


@dataclass(frozen=True, kw_only=True)
class RepeatedKeys:
    """Keys of more than one row."""

    rows: int
    """Rows that were looked at."""
    keys: int = 0
    """Keys that several rows share."""
    rows_of_keys: int = 0
    """Rows that share their key."""
    examples: tuple[dict[str, Any], ...] = field(default=())
    """Some of the keys: column → value, and how many `rows`."""
