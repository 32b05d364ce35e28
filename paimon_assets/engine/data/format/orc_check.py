"""What of an ORC file can be checked: its format has no checksums.

Rows that differ in number, nulls or bounds from what the footer says of the file were not written.
A damage that keeps these goes unseen; Parquet's pages have checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_assets.engine.codec.orc_footer import OrcColumnStats
from paimon_assets.engine.errors import FormatError

_Stats = Mapping[str, OrcColumnStats]

_REPLACED = "\ufffd"
"""What Java writes into bounds for bytes that are no text."""


def checked(
    stripes: Iterable[pa.RecordBatch], statistics: _Stats, names: Sequence[str], path: str
) -> Iterator[pa.RecordBatch]:
    """Pass the stripes of a file on, all of them in turn, unless they are not what was written.

    Raises:
        FormatError: They are not; names the file and the column.
    """
    known = {name: statistics[name] for name in names if name in statistics}
    values = dict.fromkeys(known, 0)
    for stripe in stripes:
        for name, stats in known.items():
            column: Any = stripe.column(name)
            values[name] += len(column) - column.null_count
            _check_bounds(column, stats, name, path)
        yield stripe
    for name, stats in known.items():
        if stats.value_count is not None and values[name] != stats.value_count:
            raise _damaged(path, name, f"has {values[name]} values, not {stats.value_count}")


def _check_bounds(column: Any, stats: OrcColumnStats, name: str, path: str) -> None:
    comparable = column
    if pa.types.is_date32(column.type):
        comparable = column.view(pa.int32())
    is_known = pa.types.is_integer(comparable.type) or pa.types.is_string(comparable.type)
    if not is_known or type(stats.minimum) is not type(stats.maximum) or stats.minimum is None:
        return
    found: Any = pc.min_max(comparable)
    try:
        low, high = found["min"].as_py(), found["max"].as_py()
    except UnicodeDecodeError:  # BYTES that became STRING, whose bounds are of other texts
        return
    if _REPLACED in f"{stats.minimum}{stats.maximum}":
        return
    if low is None or type(low) is not type(stats.minimum):
        return
    if _order(low) < _order(stats.minimum) or _order(high) > _order(stats.maximum):
        raise _damaged(path, name, "has values beyond the bounds")


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _damaged(path: str, name: str, what: str) -> FormatError:
    return FormatError(
        f"Data file '{path}' is not readable as ORC: column '{name}' {what} that its footer says; "
        "its bytes were changed.",
        details={"path": path, "column": name},
    )
