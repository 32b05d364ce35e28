"""Snapshots, schemas, tags and statistics ⇄ the JSON of their files.

Members this engine does not know are kept and written back; absent and null are the same, and null
is never written. Tags without a time to live are plain snapshots, which every Paimon reads.
Source: `org.apache.paimon.Snapshot`, `org.apache.paimon.schema.SchemaSerializer`,
`org.apache.paimon.tag.Tag`, `org.apache.paimon.stats.StatsFile`.
"""

import datetime as dt
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from reprlib import repr as short
from typing import Annotated, Any, cast

from msgspec import Meta, convert, to_builtins
from msgspec.structs import fields, replace

from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata import snapshot as snap
from paimon_assets.engine.spec.options.all_options import BUCKET, FILE_FORMAT
from paimon_assets.engine.spec.paths import plain_name
from paimon_assets.engine.spec.schema.schema import CURRENT_SCHEMA_VERSION, TableSchema
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.type_text import Json, field_to_json, parse_field

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""Errors that reading a document of another shape raises."""
_AROUND = 20
"""Characters shown on each side of invalid text."""
_PARQUET_DEFAULT_SINCE = 3
"""Schema version from which a table without `file.format` holds Parquet, not ORC."""


def snapshot_from_json(data: bytes, path: str) -> snap.Snapshot:
    return snapshot_from_members(json_object(data, path), path)


def snapshot_from_members(parsed: Mapping[str, Json], path: str) -> snap.Snapshot:
    """Read a snapshot from parsed JSON; errors are those of `snapshot_from_json`."""
    return snap.Snapshot(**_values(snap.Snapshot, parsed, path, snap.CURRENT_SNAPSHOT_VERSION))


def snapshot_to_json(snapshot: snap.Snapshot) -> bytes:
    """Write a `snapshot-N` file: UTF-8 JSON, members in Java's order, nulls left out."""
    return json_bytes(snapshot_members(snapshot))


def snapshot_members(snapshot: snap.Snapshot) -> dict[str, Json]:
    """Return the members of a snapshot's JSON in Java's order, nulls left out."""
    changed: dict[str, Any] = {"properties": dict(snapshot.properties) or None}
    return _write_document(snapshot, {**changed, "commitKind": snapshot.commit_kind.value})


def schema_from_json(data: bytes, path: str) -> TableSchema:
    """Parse a `schema-N` file.

    Defaults that changed with the schema version (one bucket in version 1, ORC before version 3)
    become explicit options.
    """
    values = _values(TableSchema, json_object(data, path), path, CURRENT_SCHEMA_VERSION)
    options = values.setdefault("options", {})
    if values["version"] == 1:
        options.setdefault(BUCKET.key, "1")
    if values["version"] < _PARQUET_DEFAULT_SINCE:
        options.setdefault(FILE_FORMAT.key, "orc")
    return TableSchema(**values)


def schema_to_json(schema: TableSchema) -> bytes:
    """Write a `schema-N` file: UTF-8 JSON, members in Java's order, nulls left out."""
    fields: list[Any] = [field_to_json(field) for field in schema.fields]
    return json_bytes(_write_document(schema, {"fields": fields, "options": dict(schema.options)}))


def _fields(json: Any) -> tuple[DataField, ...]:
    return tuple(map(parse_field, convert(json, list[dict[str, Any]])))


def _file_name(json: Any) -> str:
    return plain_name(convert(json, str))


_Member = tuple[str, bool, Callable[[Any], Any]]
"""(attribute, whether it is needed, how it is read)."""
LONG = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "fields": _fields,
    **dict.fromkeys(("base_manifest_list", "delta_manifest_list"), _file_name),
    **dict.fromkeys(("changelog_manifest_list", "index_manifest", "statistics"), _file_name),
}
"""Attribute → how its member is read, where its type does not say so."""


@cache
def _members(cls: type[snap.Snapshot | TableSchema]) -> Mapping[str, _Member]:
    """Return the members of the JSON by their names, in Java's order: that of the attributes."""
    members = {}
    for field in fields(cls):
        hint = LONG if field.type in (int, int | None) else field.type
        read = _READERS.get(field.name, partial(convert, type=hint))
        if field.name != "unknown":
            members[field.encode_name] = field.name, field.required, read
    return members


def _values(cls: type[Any], parsed: Mapping[str, Json], path: str, newest: int) -> dict[str, Any]:
    """Return the values of a snapshot or schema by their attributes; a very old one is version 1.

    Members must have the types that Java writes: `msgspec.convert` takes no text for a number.
    """
    noun, unknown, values = cls.__name__.removeprefix("Table").lower(), dict(parsed), {"version": 1}
    for key, (attribute, is_needed, read) in _members(cast("Any", cls)).items():
        value: Any = unknown.pop(key, None)
        if value is None:
            if is_needed:
                raise _damage(path, f"member '{key}' is missing")
            continue
        try:
            values[attribute] = read(value)
        except FormatError as error:
            raise _damage(path, f"member '{key}': {error.message.rstrip('.')}") from error
        except UNREADABLE as error:
            raise _damage(path, f"member '{key}' cannot be {short(value)} ({error})") from error
        if attribute == "version" and value > newest:
            message = (
                f"{path}: {noun} version {value} is newer than {newest}, the newest this engine"
                " reads."
            )
            raise UnsupportedFeatureError(message, kind=f"{noun}-version", path=path, version=value)
    return {**values, "unknown": unknown}


def _write_document(
    value: snap.Snapshot | TableSchema, changed: Mapping[str, Json]
) -> dict[str, Json]:
    # Java reads an explicit null comment as the text "null".
    known = {
        key: getattr(value, each[0]) for key, each in _members(cast("Any", type(value))).items()
    }
    members = {key: held for key, held in {**known, **changed}.items() if held is not None}
    return members | {key: held for key, held in value.unknown.items() if key not in known}


def json_bytes(members: Mapping[str, Json]) -> bytes:
    """Write a JSON object as Java's printer does: UTF-8, no blanks."""
    text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - _AROUND) : error.end + _AROUND]
        raise InvalidInputError(
            f"Half a character (U+{ord(text[error.start]):04X}) is in {around!a}; that is "
            "no text. Correct it.",
            kind="half-character",
        ) from None


def json_object(data: bytes, path: str) -> dict[str, Json]:
    try:
        parsed = json.loads(data)
        if b"\\u" in data:  # half a character is legal JSON, and no text
            json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise _damage(path, f"not JSON ({error})") from error
    if not isinstance(parsed, dict):
        raise _damage(path, "not a JSON object")
    return parsed


def _damage(path: str, fault: str) -> FormatError:
    return FormatError(f"{path}: {fault}.", kind="metadata-json", path=path)


def statistics_to_json(statistics: snap.Statistics) -> bytes:
    """Write statistics; unknown ones are left out."""
    return json.dumps(to_builtins(statistics), ensure_ascii=False).encode()


_CREATE_TIME = "tagCreateTime"
_TIME_RETAINED = "tagTimeRetained"
_TIME = Annotated[list[int], Meta(min_length=5, max_length=7)]
"""Year, month, day, hour, minute, second, nanoseconds."""


def tag_from_json(name: str, data: bytes, path: str) -> snap.Tag:
    snapshot = snapshot_from_json(data, path)
    rest = dict(snapshot.unknown)
    try:
        created = _local_time(rest.pop(_CREATE_TIME, None))
        retained = _duration(rest.pop(_TIME_RETAINED, None))
    except UNREADABLE as error:
        raise _damage(path, f"the tag's times are damaged ({error})") from error
    snapshot = replace(snapshot, unknown=rest)
    return snap.Tag(name=name, snapshot=snapshot, create_time=created, time_retained=retained)


def tag_to_json(tag: snap.Tag) -> bytes:
    members: dict[str, Json] = dict(tag.snapshot.unknown)
    if tag.create_time is not None and tag.time_retained is not None:
        at = tag.create_time
        time = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond * 1000]
        members[_CREATE_TIME] = list[Json](time)
        members[_TIME_RETAINED] = tag.time_retained.total_seconds()
    return snapshot_to_json(replace(tag.snapshot, unknown=members))


def _local_time(value: Json) -> dt.datetime | None:
    if isinstance(value, str):
        return dt.datetime.fromisoformat(value)
    parts = convert(value, _TIME | None)
    if parts is None:
        return None
    year, month, day, hour, minute, second, nanos = [*parts, 0, 0][:7]
    return dt.datetime(year, month, day, hour, minute, second, nanos // 1000)  # noqa: DTZ001


def _duration(value: Json) -> dt.timedelta | None:
    seconds = convert(value, float | None)
    return None if seconds is None else dt.timedelta(seconds=seconds)
