"""ModelTable: the expected rows of a table, computed by a dict. The oracle of interop.

It knows no files and no levels: among the records of one key the greatest
(sequence values, whether the record adds, arrival) wins; the second counts only where
`row-kind-flag` is first in the padding: behind a counter, arrival has decided.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import BY_SHORT_TEXT, RowKind

Row = Mapping[str, Any]
Order = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Record:
    order: Order
    row: Row
    is_add: bool


@dataclass(slots=True)
class ModelTable:
    """A table as a person would keep it on paper: append, or deduplicate by key."""

    schema: Schema
    _arrivals: int = 0
    _appended: list[Row] = field(default_factory=list)
    _by_key: dict[tuple[Any, ...], _Record] = field(default_factory=dict)

    def write(self, rows: Iterable[Row]) -> None:
        """Commit rows."""
        for row in rows:
            self._arrivals += 1
            if self.schema.primary_keys:
                self._upsert(row)
            else:
                self._appended.append(row)

    def overwrite(self, rows: Iterable[Row], is_replaced: Callable[[Row], bool] | None) -> None:
        """Commit rows in the place of stored ones.

        Rows for which `is_replaced` is true go; without it, the partitions of `rows` are replaced.
        """
        rows = list(rows)
        partitions = set(map(self._partition, rows))
        is_replaced = is_replaced or (lambda row: self._partition(row) in partitions)
        self._appended = [row for row in self._appended if not is_replaced(row)]
        self._by_key = {key: r for key, r in self._by_key.items() if not is_replaced(r.row)}
        self.write(rows)

    def _partition(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.schema.partition_keys)

    def rows(self) -> list[Row]:
        if self.schema.primary_keys:
            return [record.row for record in self._by_key.values() if record.is_add]
        return list(self._appended)

    def _upsert(self, row: Row) -> None:
        """Let a record compete for its key."""
        options = opt.Options(self.schema.options)
        kind = options.get(opt.ROWKIND_FIELD)
        is_add = not kind or parse_row_kind(row[kind]).is_add
        values = [_null_first(row[name]) for name in options.get(opt.SEQUENCE_FIELD)]
        flag_first = options.get(opt.SEQUENCE_AUTO_PADDING)[:1] == (
            opt.SequencePadding.ROW_KIND_FLAG,
        )
        record = _Record((*values, flag_first and is_add, self._arrivals), row, is_add)
        key = tuple(row[name] for name in self.schema.primary_keys)
        best = self._by_key.get(key)
        if best is None or record.order > best.order:
            self._by_key[key] = record


def _null_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, value)


def parse_row_kind(text: str) -> RowKind:
    """The kind that +I, -U, +U or -D means, in any letter case."""
    return BY_SHORT_TEXT[text.upper()]
