"""ScanDataset: a read as a dataset of pyarrow, for duckdb and other engines that scan datasets.

    columns, filter ─▶ our scan (columns, and the parts of the filter in a Predicate) ─▶ batches
                    ─▶ Arrow filters them exactly ─▶ rows

Options of Arrow's own scans, such as `batch_size`, are taken and not looked at. For Arrow's own
code, such as `Scanner.from_dataset`, the dataset has one file, which it cannot open. Importing this
imports `pyarrow.dataset`, which imports pandas if that is installed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from paimon_assets.engine.codec.row_files import until_exit
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.predicate.predicate import Predicate
from paimon_assets.engine.table.frames.arrow_filter import columns_of, weaker_filter

Scan = Callable[[Sequence[str] | None, Predicate | None], pa.RecordBatchReader]
"""Reads columns (all for None) of at least the rows for which a filter is true."""


class ScanDataset(ds.UnionDataset):
    """A read as a dataset; nothing is read before it is scanned, and memory is bounded."""

    def __init__(self, schema: pa.Schema, scan: Scan, filtered: Any = None) -> None:
        file = _FORMAT.make_fragment("rows", _REFUSED)
        files = ds.FileSystemDataset([file], schema, _FORMAT, _REFUSED)
        super().__init__(schema, [files])  # type: ignore[call-arg]
        self._schema = schema
        self._scan = scan
        self._filter = filtered

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> ds.Scanner:  # type: ignore[override]
        """Return a scan of some columns and rows."""
        del options
        both = _both(self._filter, filter)
        needed = self._needed_columns(columns, both)
        reader = self._scan(needed, None if both is None else weaker_filter(both))

        def batches() -> Iterator[pa.RecordBatch]:
            with reader:
                yield from reader

        return ds.Scanner.from_batches(
            until_exit(batches()), schema=reader.schema, columns=columns, filter=both
        )

    def _needed_columns(self, columns: Any, filtered: Any) -> list[str] | None:
        """Return the columns to read: those asked for, and those of the filter."""
        if columns is None:
            return None
        parts = [filtered] if filtered is not None else []
        names: set[str] = set()
        if isinstance(columns, dict):
            parts += columns.values()
        else:
            names.update(columns)
        for part in parts:
            used = columns_of(part)
            if used is None:
                return None
            names |= used
        chosen = [name for name in self._schema.names if name in names]
        return chosen or self._schema.names[:1]

    def filter(self, expression: Any) -> "ScanDataset":
        """Return the dataset with a filter for all its scans."""
        return ScanDataset(self._schema, self._scan, _both(self._filter, expression))

    def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:  # type: ignore[override]
        """Read all into memory; as `scanner`."""
        return self.scanner(columns, filter, **options).to_table()

    def to_batches(  # type: ignore[override]
        self, columns: Any = None, filter: Any = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """Read batch by batch; as `scanner`."""
        return self.scanner(columns, filter, **options).to_batches()

    def head(  # type: ignore[override]
        self, num_rows: int, columns: Any = None, filter: Any = None, **options: Any
    ) -> pa.Table:
        """Read the first rows; as `scanner`."""
        return self.scanner(columns, filter, **options).head(num_rows)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # type: ignore[override]
        """Count rows by reading them; `ReadBuilder.count` asks metadata first."""
        return self.scanner(self._schema.names[:1], filter, **options).count_rows()

    def __reduce__(self) -> NoReturn:
        _refuse("leave its process")

    @property
    def partition_expression(self) -> NoReturn:
        """Refused: nothing is known of all rows."""
        _refuse("have an expression that holds for all its rows")


def _refuse(action: str) -> NoReturn:
    message = f"A dataset of a Paimon table does not {action}; use its scanner, or ReadBuilder."
    raise InvalidInputError(message, kind="dataset")


def _refusing(name: str) -> Callable[..., NoReturn]:
    def method(*_args: object, **_named: object) -> NoReturn:
        _refuse(f"have '{name}'")

    return method


for _name in ("get_fragments", "join", "join_asof", "replace_schema", "sort_by", "take"):
    setattr(ScanDataset, _name, _refusing(_name))

_names = dict.fromkeys(pafs.FileSystemHandler.__abstractmethods__, _refusing("files"))
_members = {**_names, "normalize_path": lambda _, path: path, "get_type_name": lambda _: "none"}
_REFUSED = pafs.PyFileSystem(type("_Refused", (pafs.FileSystemHandler,), _members)())
_FORMAT = ds.IpcFileFormat()


def _both(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return one if other is None else other
    return one & other
