"""A table as Iceberg sees it: the folder of its metadata, its schema, its partition spec."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

from msgspec.structs import replace

from paimon_assets.engine.codec.avro.avro import Record
from paimon_assets.engine.codec.rows.binary_row import unscale
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.opening import absolute_path
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.types.cast_rules import FLOAT_ROOTS
from paimon_assets.engine.spec.types.literals import Internal
from paimon_assets.engine.spec.values import Value
from paimon_assets.iceberg import options as ice
from paimon_assets.iceberg.types import iceberg_fields, iceberg_type

_FIRST_PARTITION_ID = 1000
_NANOS_A_MICRO = 1000
_DATABASE_SUFFIX = ".db"
CATALOG_FOLDER = "iceberg"
"""Folder of a warehouse that Iceberg's Hadoop catalog takes for one."""
_AVRO: Mapping[str, Any] = {
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "binary": "bytes",
}
_WIDTHS = {"int": 4, "date": 4, "long": 8, "timestamp": 8, "timestamptz": 8}
TEXT_LIKE = types.CHARACTER_ROOTS | types.BINARY_ROOTS
JsonObject = dict[str, Any]


def metadata_directory(store: FileStore) -> str:
    """Return the folder of a table's Iceberg metadata."""
    table_path = absolute_path(store.table_path)
    options = store.schema.typed_options
    location = options.get(ice.ICEBERG_STORAGE_LOCATION)
    if location is None:
        in_table = options.get(ice.ICEBERG_STORAGE) is ice.IcebergStorage.TABLE_LOCATION
        location = (
            ice.IcebergLocation.TABLE_LOCATION if in_table else ice.IcebergLocation.CATALOG_LOCATION
        )
    if location is ice.IcebergLocation.TABLE_LOCATION:
        return f"{table_path}/metadata"
    database, _, table = table_path.rpartition("/")
    warehouse, _, name = database.rpartition("/")
    if not name.endswith(_DATABASE_SUFFIX) or not warehouse:
        raise InvalidInputError(
            f"Table '{store.label}' is in '{database}', which is no database of a warehouse: its"
            " Iceberg metadata has no place there. Set"
            f" '{ice.ICEBERG_STORAGE_LOCATION.key}' to table-location.",
            kind="option-value",
            table=store.label,
            option=ice.ICEBERG_STORAGE_LOCATION.key,
        )
    return f"{warehouse}/{CATALOG_FOLDER}/{name.removesuffix(_DATABASE_SUFFIX)}/{table}/metadata"


def plain_value(data_type: types.DataType, value: Internal) -> Any:
    """Return an internal value as manifests hold it; decimals as their unscaled bytes."""
    if value is None:
        return None
    if data_type.root in (types.TypeRoot.TIMESTAMP, types.TypeRoot.TIMESTAMP_LTZ):
        return value // _NANOS_A_MICRO  # type: ignore[operator]
    if data_type.root is types.TypeRoot.DECIMAL and isinstance(data_type, types.AtomicType):
        unscaled = unscale(value, data_type)  # type: ignore[arg-type]
        return unscaled.to_bytes(_decimal_bytes(data_type), "big", signed=True)
    return value


def bound_bytes(data_type: types.DataType, value: Any) -> bytes:
    r"""Return a value of a manifest as the bytes of a bound.

    >>> from paimon_assets.engine.spec.types.data_types import integer, string
    >>> bound_bytes(integer(), 7), bound_bytes(string(), "a")
    (b'\x07\x00\x00\x00', b'a')
    """
    name = str(iceberg_type(data_type, 0))
    if name in _WIDTHS:
        return int(value).to_bytes(_WIDTHS[name], "little", signed=True)
    match name:
        case "boolean":
            return b"\x01" if value else b"\x00"
        case "float" | "double":
            return struct.pack("<f" if name == "float" else "<d", value)
        case "string":
            return str(value).encode()
        case "binary":
            return bytes(value)
        case _:
            unscaled = int.from_bytes(value, "big", signed=True)
            return unscaled.to_bytes(_signed_bytes(unscaled), "big", signed=True)


def _signed_bytes(number: int) -> int:
    """Return the fewest bytes that hold a number and its sign."""
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def _decimal_bytes(data_type: types.AtomicType) -> int:
    return _signed_bytes(10 ** (data_type.precision or 0) - 1)


class PartitionField(Value):
    """A partition column in the one spec of a table."""

    column: types.DataField
    field_id: int

    @property
    def name(self) -> str:
        """Its name in the records of manifests, as Avro takes it; readers go by ids.

        >>> column = types.DataField(id=1, name="day-1", type=types.string())
        >>> PartitionField(column=column, field_id=1000).name
        'day_x2D1'
        """
        plain = re.sub("[^A-Za-z0-9_]", lambda found: f"_x{ord(found[0]):X}", self.column.name)
        return f"_{plain}" if plain[:1].isdigit() else plain

    @property
    def avro_type(self) -> Any:
        data_type = self.column.type
        if data_type.root is types.TypeRoot.DECIMAL and isinstance(data_type, types.AtomicType):
            return {
                "type": "fixed",
                "name": f"decimal_{self.field_id}",
                "size": _decimal_bytes(data_type),
                "logicalType": "decimal",
                "precision": data_type.precision,
                "scale": data_type.scale,
            }
        name = str(iceberg_type(data_type, 0))
        return _AVRO.get(name, name)

    def may_be_in(self, value: Any, summary: Record) -> bool:
        """Whether a value of a partition may be among those that a manifest's summary bounds."""
        low, high = summary["lower_bound"], summary["upper_bound"]
        if value is None:
            return bool(summary["contains_null"])
        if _is_nan(value):
            return summary["contains_nan"] is not False
        if low is None or high is None:
            return True
        bounds = [_ordered_value(self.column.type, bound) for bound in (low, high)]
        own = _ordered_value(self.column.type, bound_bytes(self.column.type, value))
        return bool(bounds[0] <= own <= bounds[1])


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _ordered_value(data_type: types.DataType, bound: bytes) -> Any:
    """Return a bound as a value in the order of the type."""
    if data_type.root in TEXT_LIKE:
        return bound
    if data_type.root in FLOAT_ROOTS:
        return struct.unpack("<f" if len(bound) == 4 else "<d", bound)[0]
    return int.from_bytes(bound, "big" if data_type.root is types.TypeRoot.DECIMAL else "little",
                          signed=data_type.root is not types.TypeRoot.BOOLEAN)  # fmt: skip


class IcebergTable(Value, dict=True):
    """Facts of a table that all its Iceberg metadata shares."""

    store: FileStore
    """With the schema that the metadata shows."""

    @classmethod
    def of(cls, store: FileStore, schema_id: int) -> Self:
        """Return a table as one of its schemas shows it."""
        stored = store.schemas.schema(schema_id)
        shown = store.with_schema(stored.with_dynamic_options(store.dynamic_options))
        return cls(store=replace(shown, table_path=absolute_path(store.table_path)))

    @property
    def schema(self) -> TableSchema:
        return self.store.schema

    @cached_property
    def metadata_directory(self) -> str:
        return metadata_directory(self.store)

    @cached_property
    def format_version(self) -> int:
        return self.schema.typed_options.get(ice.ICEBERG_FORMAT_VERSION)

    @cached_property
    def current_schema(self) -> JsonObject:
        """The schema, with its NOT NULL columns required; `document` may relax them."""
        required = {field.id for field in self.schema.fields if not field.type.nullable}
        return self.schema_json(required)

    def schema_json(self, required: Iterable[int]) -> JsonObject:
        fields = iceberg_fields(self.schema.fields, frozenset(required))
        return {"type": "struct", "schema-id": self.schema.id, "fields": fields}

    @cached_property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        return tuple(
            PartitionField(column=column, field_id=_FIRST_PARTITION_ID + number)
            for number, column in enumerate(self.schema.partition_fields)
        )

    @cached_property
    def partition_spec(self) -> JsonObject:
        fields = [
            {
                "name": field.column.name,
                "transform": "identity",
                "source-id": field.column.id,
                "field-id": field.field_id,
            }
            for field in self.partition_fields
        ]
        return {"spec-id": 0, "fields": fields}

    @property
    def last_partition_id(self) -> int:
        return _FIRST_PARTITION_ID - 1 + len(self.partition_fields)

    def partition_record(self, partition: bytes) -> Record:
        values = self.store.partitions.values(partition)
        pairs = zip(self.partition_fields, values, strict=True)
        return {field.name: plain_value(field.column.type, value) for field, value in pairs}

    def partition_summaries(self, records: Iterable[Record]) -> list[Record]:
        """Return bounds of partitions for a manifest list."""
        listed = list(records)
        return [
            partition_summary(field.column.type, [each[field.name] for each in listed])
            for field in self.partition_fields
        ]


def partition_summary(data_type: types.DataType, values: list[Any]) -> Record:
    """Return the bounds of a column's partitions, those of NaN aside."""
    known = {value for value in values if value is not None and not _is_nan(value)}
    is_float = data_type.root in FLOAT_ROOTS
    summary: Record = {
        "contains_null": None in values,
        "contains_nan": any(map(_is_nan, values)) if is_float else None,
        "lower_bound": None,
        "upper_bound": None,
    }
    if known:
        bounds = sorted((bound_bytes(data_type, value) for value in known),
                        key=lambda bound: _ordered_value(data_type, bound))  # fmt: skip
        low, high = bounds[0], bounds[-1]
        if is_float:  # zeros have two signs, and in Java -0.0 is smaller; the bounds hold for both
            low = low if _ordered_value(data_type, low) else bound_bytes(data_type, -0.0)
            high = high if _ordered_value(data_type, high) else bound_bytes(data_type, 0.0)
        summary |= {"lower_bound": low, "upper_bound": high}
    return summary
