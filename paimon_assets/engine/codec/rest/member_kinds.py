"""The kinds of members: how they are read, as leniently as Java, and written.

Numbers and truth values may come as texts, numbers as the values of texts. Null and absent are one:
empty lists and objects, 0, false. Integers are never read by way of a float.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from paimon_assets.engine.codec.json.metadata_json import snapshot_from_members, snapshot_members
from paimon_assets.engine.codec.rest.structure import Kind
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.evolution.schema_change import (
    DropPrimaryKey,
    SchemaChange,
    UpdateColumnDefaultValue,
    UpdateColumnPosition,
)
from paimon_assets.engine.spec.evolution.schema_change_json import change_from_json, change_to_json
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import Json, field_to_json, parse_field

T = TypeVar("T")
_FIELD_MEMBERS = frozenset({"id", "name", "type"})
_COUNTS = ("totalRecordCount", "deltaRecordCount")
_NUMBERS = frozenset({*_COUNTS, "id", "schemaId", "commitIdentifier", "timeMillis", "watermark"})


def _same(value: Any) -> Json:
    return cast("Json", value)


def _text(json: Json) -> str:
    if isinstance(json, bool):
        return str(json).lower()
    if not isinstance(json, str | int):
        raise TypeError("expected a text")
    return str(json)


def _integer(json: Json) -> int:
    if isinstance(json, bool) or not isinstance(json, str | int):
        raise TypeError("expected a whole number")
    number = int(json)
    if not -(2**63) <= number < 2**63:
        raise ValueError("expected a number of 64 bits")
    return number


def _boolean(json: Json) -> bool:
    match str(json).lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise TypeError("expected true or false")


def _object(json: Json) -> dict[str, Json]:
    if not isinstance(json, dict):
        raise TypeError("expected an object")
    return json


def _texts(json: Json) -> dict[str, str]:
    return {key: _text(value) for key, value in _object(json).items() if value is not None}


TEXT: Kind[str] = Kind(_text, _same)
INTEGER: Kind[int] = Kind(_integer, _same, empty=int)
"""Absent is 0."""
REQUIRED_INTEGER: Kind[int] = Kind(_integer, _same)
BOOLEAN: Kind[bool] = Kind(_boolean, _same, empty=bool)
"""Absent is false."""
REQUIRED_BOOLEAN: Kind[bool] = Kind(_boolean, _same)
TEXT_MAP: Kind[Mapping[str, str]] = Kind(_texts, _same, empty=dict)
"""Absent is empty; members that are null are left out."""
OBJECTS: Kind[Mapping[str, Json]] = Kind(_object, _same, empty=dict)
"""An object of anything."""


def optional(kind: Kind[T]) -> Kind[T | None]:
    """Return a kind that may be null."""

    def written(value: T | None) -> Json:
        return None if value is None else kind.write(value)

    def dlf(value: T | None) -> Json:
        return None if value is None else (kind.dlf or kind.write)(value)

    return Kind(kind.read, written, dlf, empty=lambda: None)


def list_of(kind: Kind[T]) -> Kind[tuple[T, ...]]:
    """Return the kind of a list; absent is empty."""

    def read(json: Json) -> tuple[T, ...]:
        if not isinstance(json, list):
            raise TypeError("expected a list")
        return tuple(kind.read(item) for item in json)

    return Kind(
        read,
        lambda values: [kind.write(value) for value in values],
        lambda values: [(kind.dlf or kind.write)(value) for value in values],
        empty=tuple,
    )


OPTIONAL_TEXT = optional(TEXT)
OPTIONAL_INTEGER = optional(REQUIRED_INTEGER)
TEXTS = list_of(TEXT)


def _plain_fields(json: Json) -> Json:
    """Remove the members of fields that DLF's fields do not have."""
    if isinstance(json, list):
        return [_plain_fields(item) for item in json]
    if not isinstance(json, dict):
        return json
    is_field = _FIELD_MEMBERS.issubset(json)
    return {
        key: _plain_fields(value)
        for key, value in json.items()
        if not is_field or key in _FIELD_MEMBERS
    }


_FIELDS = list_of(Kind(lambda json: parse_field(_object(json)), field_to_json))
FIELDS: Kind[tuple[DataField, ...]] = replace(
    _FIELDS, dlf=lambda fields: _plain_fields(_FIELDS.write(fields))
)


def _schema(json: Json) -> Schema:
    members = {key: value for key, value in _object(json).items() if value is not None}
    comment = members.get("comment")
    return Schema(
        fields=FIELDS.read(members.get("fields", [])),
        partition_keys=TEXTS.read(members.get("partitionKeys", [])),
        primary_keys=TEXTS.read(members.get("primaryKeys", [])),
        options=_texts(members.get("options", {})),
        comment=None if comment is None else _text(comment),
    )


def _written_schema(schema: Schema, *, fields: Json) -> Json:
    members: dict[str, Json] = {
        "fields": fields,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    return members if schema.comment is None else {**members, "comment": schema.comment}


SCHEMA: Kind[Schema] = Kind(
    _schema,
    lambda schema: _written_schema(schema, fields=FIELDS.write(schema.fields)),
    lambda schema: _written_schema(schema, fields=cast("Any", FIELDS.dlf)(schema.fields)),
)


def _snapshot(json: Json) -> Snapshot:
    members: dict[str, Json] = dict.fromkeys(_COUNTS, 0)
    for key, value in _object(json).items():
        if value is not None:
            members[key] = _integer(value) if key in _NUMBERS else value
    return snapshot_from_members(members, "snapshot")


def _dlf_snapshot(snapshot: Snapshot) -> Json:
    return {key: value for key, value in snapshot_members(snapshot).items() if key != "uuid"}


SNAPSHOT: Kind[Snapshot] = Kind(_snapshot, snapshot_members, _dlf_snapshot)


def _dlf_change(change: SchemaChange) -> Json:
    written = change_to_json(change)
    action = written.pop("action")
    if isinstance(change, UpdateColumnDefaultValue | DropPrimaryKey):
        raise UnsupportedFeatureError(
            f"DLF has no schema change '{action}'.", kind="dlf-schema-change"
        )
    if isinstance(change, UpdateColumnPosition):
        return {"type": action, "fieldNames": [change.move.field_name], **written}
    return {"type": action, **written}


SCHEMA_CHANGE: Kind[SchemaChange] = Kind(change_from_json, change_to_json, _dlf_change)
