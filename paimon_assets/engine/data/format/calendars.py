"""Days and instants that a writer counted in the Julian calendar, before 1582-10-15.

Spark 2 does so, and later ones if configured to; the keys of a file's footer show it. Dates keep
their names, as in Spark. So do instants of UTC; in other zones, Spark moves those before 1900 by
the old offsets of its JVM, so these are refused.
Source: `org.apache.spark.sql.execution.datasources.DataSourceUtils`, `RebaseDateTime`.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.nested import parts_of, with_parts
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.predicate.prune import Bounds
from paimon_assets.engine.spec.values import Value

UTC_NAMES = frozenset({"UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "Universal", "Zulu"})
_GREGORIAN = -141_427
"""1582-10-15, the first day of the Gregorian calendar."""
FIRST_GREGORIAN_MICROS = _GREGORIAN * 86_400 * 10**6
_SAME_OFFSETS = -25_567
"""1900-01-01: from here on the zones of both calendars have the same offsets."""
_DAYS_FROM_MARCH_0 = 719_470
"""To 1970, from the Julian calendar's first of March of the year 0."""
_DAYS_OF_JULIAN_CENTURY = 36_525
_DAY_NANOS = 86_400 * 10**9
_SPARK = b"org.apache.spark."


def moves_of(days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return by how many days to move Julian days to the Gregorian days of the same date."""
    century = (days + _DAYS_FROM_MARCH_0) // _DAYS_OF_JULIAN_CENTURY
    moves: npt.NDArray[np.int64] = np.where(days < _GREGORIAN, century // 4 + 2 - century, 0)
    return moves


class JulianTimes(Value):
    """Which values of a file are counted in the Julian calendar."""

    path: str
    has_dates: bool
    has_instants: bool = False
    """Whether instants are, but for INT96: those are if `has_int96`."""
    has_int96: bool = False
    zone: str = ""
    """Of the process that wrote the file; empty if it is not known."""

    @classmethod
    def of_parquet(cls, metadata: Mapping[bytes, bytes] | None, path: str) -> Self | None:
        """Return those of a Parquet file of Spark; None if there are none."""
        keys = metadata or {}
        version = keys.get(_SPARK + b"version")
        if version is None:
            return None
        old, _, minor = version.decode(errors="replace").partition(".")
        has_dates = old in ("1", "2") or _SPARK + b"legacyDateTime" in keys
        is_3_0 = old == "3" and minor.startswith("0.")
        has_int96 = old in ("1", "2") or is_3_0 or _SPARK + b"legacyINT96" in keys
        zone = keys.get(_SPARK + b"timeZone", b"").decode(errors="replace")
        if not has_dates and not has_int96:
            return None
        return cls(
            path=path, has_dates=has_dates, has_instants=has_dates, has_int96=has_int96, zone=zone
        )

    def mend(self, column: Any, name: str, *, is_int96: bool = False) -> Any:
        """Return a column, at any depth, as days and instants of the Gregorian calendar."""
        if pat.is_date32(column.type) and self.has_dates:
            days = to_numpy(column.view(pa.int32())).astype(np.int64)
            return self._move_days(column, days, moves_of(days).astype(np.int32), pa.int32())
        if pat.is_timestamp(column.type) and self._has_instants(column.type, is_int96=is_int96):
            unit = _DAY_NANOS // UNIT_NANOS[column.type.unit]
            counts = to_numpy(column.view(pa.int64()))
            days = counts // unit
            self._check_zone(days, column, name)
            return self._move_days(column, days, moves_of(days) * unit, pa.int64())
        parts = parts_of(column)
        if not parts:
            return column
        changed = [self.mend(part, name, is_int96=is_int96) for part in parts]
        same = all(new is old for new, old in zip(changed, parts, strict=True))
        return column if same else with_parts(column, changed, column.type)

    def bounds(self, bounds: Bounds, data_type: Any, *, is_int96: bool = False) -> Bounds:
        """Return bounds of a flat column, unknown if its smallest value may be moved."""
        is_moved = (
            self.has_dates if pat.is_date32(data_type)
            else pat.is_timestamp(data_type) and self._has_instants(data_type, is_int96=is_int96)
        )  # fmt: skip
        unit = _DAY_NANOS if pat.is_timestamp(data_type) else 1
        if not is_moved or bounds.minimum is None or bounds.minimum // unit >= _SAME_OFFSETS:
            return bounds
        return Bounds(null_count=bounds.null_count, row_count=bounds.row_count)

    def _has_instants(self, data_type: Any, *, is_int96: bool) -> bool:
        is_int96 = is_int96 and data_type.tz is None
        return self.has_int96 if is_int96 else self.has_instants and data_type.tz is not None

    @staticmethod
    def _move_days(column: Any, days: Any, moves: Any, stored: pa.DataType) -> Any:
        old = from_numpy(days < _GREGORIAN)
        if not pc.any(pc.and_(column.is_valid(), old)).as_py():
            return column
        moved = from_numpy(to_numpy(column.view(stored)) + moves).view(column.type)
        return pc.if_else(column.is_valid(), moved, pa.scalar(None, column.type))

    def _check_zone(self, days: Any, column: Any, name: str) -> None:
        old: Any = pc.and_(column.is_valid(), from_numpy(days < _SAME_OFFSETS))
        if self.zone in UTC_NAMES or not pc.any(old).as_py():
            return
        zone = f"the zone '{self.zone}'" if self.zone else "a zone that the file does not name"
        raise FormatError(
            f"Column '{name}' of data file '{self.path}' holds timestamps before 1900 that Spark"
            f" counted in the Julian calendar and {zone}. Leave the column out, or write the file"
            " again with Spark and spark.sql.parquet.datetimeRebaseModeInWrite and"
            " spark.sql.parquet.int96RebaseModeInWrite = CORRECTED.",
            kind="timestamp-calendar",
            path=self.path,
            column=name,
            zone=self.zone,
        )
