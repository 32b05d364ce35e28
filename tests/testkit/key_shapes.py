"""Shapes of primary keys beside shapes of partitions, and the rows that a table makes of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

from paimon_assets.engine.spec.schema.schema import Schema

COLUMNS = {"k": "INT", "p0": "STRING", "n": "INT", "p1": "INT", "v": "INT"}
NAMES = tuple(COLUMNS)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KeyShape:
    """Partition columns, and the columns of the primary key."""

    partitions: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def crosses(self) -> bool:
        """Whether a key may change partition."""
        return not set(self.partitions) <= set(self.keys)

    @property
    def is_partial(self) -> bool:
        """Whether the key holds some of the partition columns."""
        return self.crosses and bool(set(self.partitions) & set(self.keys))

    def schema(self, options: dict[str, str]) -> Schema:
        return Schema.of(
            COLUMNS, partition_keys=self.partitions, primary_keys=self.keys, options=options
        )

    def __str__(self) -> str:
        return f"{'+'.join(self.keys)}_by_{'+'.join(self.partitions) or 'nothing'}"


def _shapes() -> list[KeyShape]:
    shapes = []
    for partitions in ((), ("p0",), ("p1", "p0")):
        for count in range(len(partitions) + 1):
            for inside in combinations(partitions, count):
                shapes += [KeyShape(partitions, ("k", *inside))]
                shapes += [KeyShape(partitions, (*reversed(inside), "n", "k"))]
    return shapes


SHAPES = _shapes()
"""None, some and all of the partition columns in the key; before and behind its other columns."""


def drawn_rows(draw: Random) -> list[Row]:
    """Draw rows of few keys and partitions."""
    return [
        {
            "k": draw.randrange(4),
            "p0": draw.choice("abc"),
            "n": draw.randrange(2),
            "p1": draw.randrange(2, 4),
            "v": draw.randrange(100),
        }
        for _ in range(draw.randint(1, 12))
    ]


def merge_rows(schema: Schema, rows: Iterable[Row]) -> list[Row]:
    """Return the rows of a table after rows without nulls were written to it, in order."""
    engine = schema.options.get("merge-engine", "deduplicate")
    held: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in schema.primary_keys)
        before = held.get(key)
        if before is None or engine == "deduplicate":
            held[key] = row
        elif engine == "partial-update":  # the key stays in its first partition
            held[key] = {**row, **{name: before[name] for name in schema.partition_keys}}
    return list(held.values())
