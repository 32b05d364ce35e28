"""The segment registry ⇄ JSON.

{"version": 1, "writer": "…", "nextId": 3, "segments": [{"id": 0, …, "files": [[name, …], …]}],
 "loads": [{"id": 2, …, "files": [names, sizes, rows]}], "mark": [snapshot id, delta list]}

`loads` and `mark` came later and may be absent; an engine that does not know them drops them when
it changes the list. Then loads get new ids, and segments keep theirs: so the version stays 1, and
older engines go on reading such tables.
"""

import json
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from paimon_assets.engine.codec.json.metadata_json import UNREADABLE, json_bytes
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
    """Loads by the table's own snapshots, up to `mark`."""
    mark: seg.SegmentCommit | None = None
    """The newest snapshot that was looked at for loads."""


def segments_to_json(listed: SegmentList, *, writer: str = "") -> bytes:
    members: dict[str, Any] = {
        "version": _VERSION,
        "writer": writer,
        "nextId": listed.next_id,
        "segments": list(map(_segment_json, listed.segments)),
        "loads": list(map(_load_json, listed.loads)),
        "mark": to_builtins(listed.mark),
    }
    return json_bytes(members)


def segments_from_json(data: bytes, path: str) -> SegmentList:
    try:
        members = json.loads(data)
        if members["version"] != _VERSION:
            raise ValueError(f"version {members['version']}")
        return SegmentList(
            next_id=members["nextId"],
            segments=tuple(map(_segment, members["segments"])),
            loads=tuple(map(_load, members.get("loads", ()))),
            mark=convert(members.get("mark"), seg.SegmentCommit | None),
        )
    except UNREADABLE as error:
        message = f"The segment registry '{path}' is damaged or of a later version: {error!r}."
        raise FormatError(message, kind="segment-registry", path=path) from error


def _segment_json(segment: seg.Segment) -> dict[str, Any]:
    written: dict[str, Any] = to_builtins(segment, enc_hook=str)
    if not written["removers"]:
        del written["removers"]
    # Tags stand beside the files: earlier versions take five values of each.
    written["files"] = [file[:-1] for file in written["files"]]
    tags = [file.tag for file in segment.files]
    return {**written, "tags": tags} if any(tags) else written


def _segment(item: dict[str, Any]) -> seg.Segment:
    tags = item.get("tags") or [""] * len(item["files"])
    files = [[*file, tag] for file, tag in zip(item["files"], tags, strict=True)]
    segment = convert(_complete(seg.Segment, {**item, "files": files}), seg.Segment)
    straight_path(segment.folder)
    for file in segment.files:
        straight_path(file.name)
        plain_name(file.file_name)
    return segment


def _load_json(load: seg.Load) -> dict[str, Any]:
    files: list[Any] = list(map(list, zip(*load.files, strict=True)))
    written = {**to_builtins(replace(load, files=())), "files": files}
    del written["status"]
    return written


def _load(item: dict[str, Any]) -> seg.Load:
    files = list(zip(*item["files"], strict=True))
    return convert(_complete(seg.Load, {**item, "files": files}), seg.Load)


_LATER = frozenset({"status", "refreshed", "removers", "roots"})
"""Members that some registries do not have."""


def _complete(kind: type[Struct], item: dict[str, Any]) -> dict[str, Any]:
    if missing := set(kind.__struct_encode_fields__) - _LATER - item.keys():
        raise KeyError(*missing)
    return item
