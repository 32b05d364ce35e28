"""The task `diff`: the rows that differ between parts of two states."""

from collections.abc import Mapping

from msgspec import field

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.spec.values import Value

DIFF_TASK = "diff"


class DiffContext(Value):
    """The context that all tasks of one comparison share."""

    before: ReadContext
    after: ReadContext
    """Of the same columns."""
    identity: int
    """How many of the first columns say which rows are the same; 0 compares bags of rows."""
    most_bytes: int
    """Memory for hashes and rows of a task."""
    examples: int


class DiffRequest(Value):
    """The parts of two states that may differ."""

    before: tuple[DataSplit, ...]
    after: tuple[DataSplit, ...]


class DiffExample(Value):
    """A row that differs; values as text."""

    change: str
    """`added`, `removed` or `changed`."""
    before: Mapping[str, str | None] = field(default_factory=dict)
    """Of a changed row the identity and the columns that differ; empty if it was added."""
    after: Mapping[str, str | None] = field(default_factory=dict)


class RowDiff(Value):
    """How many rows differ: the result of one task, and their sum."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    """Rows of both states, by key or row id, with another value."""
    columns: Mapping[str, int] = field(default_factory=dict)
    """Column → changed rows in which it differs."""
    compared: int = 0
    """Rows of the newer state that were read."""
    examples: tuple[DiffExample, ...] = ()

    @property
    def rows(self) -> int:
        """Rows that differ."""
        return self.added + self.removed + self.changed

    def plus(self, other: "RowDiff", examples: int) -> "RowDiff":
        """Return the sum of both, with so many examples."""
        columns = {
            name: self.columns.get(name, 0) + other.columns.get(name, 0)
            for name in (*self.columns, *(n for n in other.columns if n not in self.columns))
        }
        return RowDiff(
            added=self.added + other.added,
            removed=self.removed + other.removed,
            changed=self.changed + other.changed,
            columns=columns,
            compared=self.compared + other.compared,
            examples=(*self.examples, *other.examples)[:examples],
        )
