"""Tag ⇄ the JSON of `tag-<name>` files: that of the snapshot, and two members of its own.

Tags without a time to live are written as plain snapshots, which every version of Paimon reads.
Source: `org.apache.paimon.tag.Tag`.
"""

import datetime as dt
from dataclasses import replace

from paimon_assets.engine.codec.json.metadata_json import snapshot_from_json, snapshot_to_json
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.metadata.tag import Tag
from paimon_assets.engine.spec.types.type_text import Json

_CREATE_TIME = "tagCreateTime"
_TIME_RETAINED = "tagTimeRetained"
_LEAST_PARTS, _MOST_PARTS = 5, 7


def tag_from_json(name: str, data: bytes, path: str) -> Tag:
    """Parse a tag file."""
    snapshot = snapshot_from_json(data, path)
    others = dict(snapshot.unknown)
    try:
        created = _local_time(others.pop(_CREATE_TIME, None))
        retained = _duration(others.pop(_TIME_RETAINED, None))
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{path}: the tag's times are damaged ({error}).",
            kind="metadata-json",
            details={"path": path},
        ) from error
    return Tag(
        name=name,
        snapshot=replace(snapshot, unknown=others),
        create_time=created,
        time_retained=retained,
    )


def tag_to_json(tag: Tag) -> bytes:
    """Write a tag file."""
    members: dict[str, Json] = dict(tag.snapshot.unknown)
    if tag.create_time is not None and tag.time_retained is not None:
        at = tag.create_time
        time = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond * 1000]
        members[_CREATE_TIME] = list[Json](time)
        members[_TIME_RETAINED] = tag.time_retained.total_seconds()
    return snapshot_to_json(replace(tag.snapshot, unknown=members))


def _local_time(value: Json) -> dt.datetime | None:
    if value is None:
        return None
    if isinstance(value, str):
        return dt.datetime.fromisoformat(value)
    if not isinstance(value, list) or not _LEAST_PARTS <= len(value) <= _MOST_PARTS:
        raise ValueError("expected [year, month, day, hour, minute, second, nanoseconds]")
    parts = [part for part in value if isinstance(part, int)]
    if len(parts) != len(value):
        raise ValueError("expected whole numbers")
    year, month, day, hour, minute, second, nanos = [*parts, 0, 0][:_MOST_PARTS]
    return dt.datetime(year, month, day, hour, minute, second, nanos // 1000)  # noqa: DTZ001


def _duration(value: Json) -> dt.timedelta | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("expected seconds")
    return dt.timedelta(seconds=value)
