"""The segment registry ⇄ JSON.

{"version": 1, "writer": "…", "nextId": 3, "segments": [{"id": 0, …, "files": [[name, …], …]}],
 "loads": [{"id": 2, …, "files": [names, sizes, rows]}], "mark": [snapshot id, delta list]}

`loads` and `mark` came later and may be absent; an engine that does not know them drops them when
it changes the list. That costs loads their ids, which are then given anew, and no segment its own:
so the version stays 1, and older engines go on reading such tables.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

from paimon_assets.engine.codec.json.metadata_json import json_bytes
from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.spec.paths import plain_name, straight_path
from paimon_assets.engine.spec.segments import segment as seg
from paimon_assets.engine.spec.values import Value

_VERSION = 1


class SegmentList(Value):
    """All segments a table has or had, by id."""

    next_id: int = 0
    segments: tuple[seg.Segment, ...] = ()
    loads: tuple[seg.Load, ...] = ()
    """What the table's own snapshots brought, up to `mark`."""
    mark: seg.SegmentCommit | None = None
    """The newest snapshot that was looked at for loads."""


def segments_to_json(listed: SegmentList, *, writer: str = "") -> bytes:
    members: dict[str, Any] = {
        "version": _VERSION,
        "writer": writer,
        "nextId": listed.next_id,
        "segments": [_segment_json(segment) for segment in listed.segments],
        "loads": [_load_json(load) for load in listed.loads],
        "mark": _commit_json(listed.mark),
    }
    return json_bytes(members)


def segments_from_json(data: bytes, path: str) -> SegmentList:
    try:
        members = json.loads(data)
        _check_version(members["version"])
        segments, loads = map(_segment, members["segments"]), map(_load, members.get("loads", ()))
        listed = SegmentList(
            next_id=members["nextId"],
            segments=tuple(segments),
            loads=tuple(loads),
            mark=_commit(members.get("mark")),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(
            f"The segment registry '{path}' is damaged or of a later version: {error!r}.",
            kind="segment-registry",
            details={"path": path},
        ) from error
    return listed


def _check_version(version: int) -> None:
    if version != _VERSION:
        raise ValueError(f"version {version}")


def _segment_json(segment: seg.Segment) -> dict[str, Any]:
    return {
        "id": segment.id,
        "status": segment.status.value,
        "path": segment.path,
        "folder": segment.folder,
        "format": segment.format,
        "partition": base64.b64encode(segment.partition).decode(),
        "partitionSpec": segment.partition_text,
        "schemaId": segment.schema_id,
        "commitUser": segment.commit_user,
        "loadStartTime": segment.load_start_ms,
        "loadEndTime": segment.load_end_ms,
        "added": _commit_json(segment.added),
        "removed": _commit_json(segment.removed),
        "refreshed": _commit_json(segment.refreshed),
        "removedTime": segment.removed_ms,
        "options": dict(segment.options),
        "roots": list(segment.roots),
        "files": [
            [file.name, file.size, file.modified_ms, file.rows, file.file_name]
            for file in segment.files
        ],
        **({"removers": list(map(list, segment.removers))} if segment.removers else {}),
        # Beside the files: earlier versions take five values of each.
        **({"tags": tags} if any(tags := [file.tag for file in segment.files]) else {}),
    }


def _segment(item: dict[str, Any]) -> seg.Segment:
    return seg.Segment(
        id=item["id"],
        status=seg.SegmentStatus(item["status"]),
        path=item["path"],
        folder=straight_path(item["folder"]),
        format=item["format"],
        partition=base64.b64decode(item["partition"]),
        partition_text=item["partitionSpec"],
        schema_id=item["schemaId"],
        commit_user=item["commitUser"],
        load_start_ms=item["loadStartTime"],
        load_end_ms=item["loadEndTime"],
        added=_commit(item["added"]),
        removed=_commit(item["removed"]),
        refreshed=_commit(item.get("refreshed")),
        removed_ms=item["removedTime"],
        removers=tuple((str(user), int(number)) for user, number in item.get("removers", ())),
        options=item["options"],
        roots=tuple(item.get("roots", ())),
        files=tuple(
            seg.SegmentFile(
                name=straight_path(name),
                size=size,
                modified_ms=modified_ms,
                rows=rows,
                file_name=plain_name(file_name),
                tag=str(tag),
            )
            for (name, size, modified_ms, rows, file_name), tag in zip(
                item["files"], item.get("tags") or [""] * len(item["files"]), strict=True
            )
        ),
    )


def _load_json(load: seg.Load) -> dict[str, Any]:
    return {
        "id": load.id,
        "added": _commit_json(load.added),
        "partitionSpec": load.partition_text,
        "partitionCount": load.partition_count,
        "format": load.format,
        "schemaId": load.schema_id,
        "loadStartTime": load.load_start_ms,
        "loadEndTime": load.load_end_ms,
        "compactedInto": load.compacted_into,
        "removedTime": load.removed_ms,
        "files": list(map(list, zip(*load.files, strict=True))),
    }


def _load(item: dict[str, Any]) -> seg.Load:
    return seg.Load(
        id=item["id"],
        added=_commit(item["added"]),
        partition_text=item["partitionSpec"],
        partition_count=item["partitionCount"],
        format=item["format"],
        schema_id=item["schemaId"],
        load_start_ms=item["loadStartTime"],
        load_end_ms=item["loadEndTime"],
        compacted_into=item["compactedInto"],
        removed_ms=item["removedTime"],
        files=tuple(map(seg.LoadFile._make, zip(*item["files"], strict=True))),
    )


def _commit_json(commit: seg.SegmentCommit | None) -> list[Any] | None:
    return None if commit is None else [commit.snapshot_id, commit.delta_manifest_list]


def _commit(item: Sequence[Any] | None) -> seg.SegmentCommit | None:
    if item is None:
        return None
    return seg.SegmentCommit(snapshot_id=item[0], delta_manifest_list=item[1])
