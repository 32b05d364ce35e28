"""The files a table has ingested: exactly once each, whatever crashes.

A ledger is a JSON file below the table, `ingestion/ledger-<uuid>.json`, that names the parts which
hold the files of one source that were ingested so far. It is written before the
commit, and the commit's snapshot names it in the property `paimon-assets.ingestion.<source>`. So
the newest snapshot that carries the property names the ledger of the table; one no snapshot names
belongs to a commit that never happened, and counts for nothing. Rolling the table back rolls the
ledger back.

Two runs that ingest at once plan the same generation, and one commit wins: the commit user is the
source, the commit identifier the generation.

The files are sorted by name, in parts that are merged as manifests are. A part is a Parquet file
that never changes; a tick reads the parts whose range of names the folder has some of:

    part 100,000 names │ part 100,000 │ part 40,000 │ part 600 │ part 3 ◀─ new names
                                                      └── merged when the new ones are as many ──┘
"""

import json
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as papq
from msgspec import field
from msgspec.structs import replace

from paimon_assets.assets.metadata import snapshot_or_none
from paimon_assets.engine.control.commit.file_store_commit import Condition
from paimon_assets.engine.control.ledgers import pointed_ledger
from paimon_assets.engine.control.segments import FolderFile
from paimon_assets.engine.errors import CommitConflictError, FormatError, InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import LEDGER_PROPERTY_PREFIX, Snapshot
from paimon_assets.engine.spec.paths import plain_name
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.table.table import Table

_VERSION = 2
_WITHOUT_PARTS = 1
"""Version of ledgers that hold their files themselves."""
_SHOWN = 5
_SOURCES_KEPT = 64

PART_FILES = 100_000
"""Most names of a part that is merged of several."""

_INTEGER: pa.DataType = pa.int64()
_SCHEMA = pa.schema([("name", pa.string()), ("size", _INTEGER), ("modified", _INTEGER)])
_MERGED_BELOW = 2
"""A part is merged with new names if it has less than so many times as many."""
_PARTS_REMEMBERED = 4
"""The fewest parts of the remembered names: they are forgotten by whole parts."""


class Part(Value):
    """Some of the files of a ledger."""

    count: int
    first: str
    last: str
    file: str = ""
    """Name of the file that holds them; empty until it is written."""
    rows: pa.Table | None = None


Read = Callable[[Part], pa.Table]
"""Returns the rows of a part, sorted by name."""


def part_of(files: Iterable[FolderFile]) -> Part:
    """Return a part that is not written yet; of at least one file."""
    rows = [(file.name, file.size, file.modified_ms) for file in sorted(files)]
    return _unwritten(pa.table([*zip(*rows, strict=True)], schema=_SCHEMA))


def _unwritten(rows: pa.Table) -> Part:
    names = rows["name"]
    return Part(count=len(rows), first=names[0].as_py(), last=names[-1].as_py(), rows=rows)


def merge_parts(parts: Sequence[Part], read: Read, *, most: int = PART_FILES) -> tuple[Part, ...]:
    """Return parts of the same files, at most one of them not written yet: the last one.

    The oldest come first; those that are not written come last. No part of more than `most` names
    is made of older ones.
    """
    written = [part for part in parts if part.file]
    unwritten = [part for part in parts if not part.file]
    count = sum(part.count for part in unwritten)
    while (
        unwritten
        and written
        and written[-1].count < _MERGED_BELOW * count
        and (written[-1].count + count <= most)
    ):
        unwritten.append(written.pop())
        count += unwritten[-1].count
    if not unwritten:
        return tuple(written)
    # The newest first: of a name that was ingested again, that counts.
    rows = pa.concat_tables([read(part) for part in unwritten])
    order = pa.array(np.arange(len(rows)))
    ordered = rows.append_column("order", order).sort_by(
        [("name", "ascending"), ("order", "ascending")]
    )
    names = ordered["name"].to_numpy()
    is_newest = np.append(True, names[1:] != names[:-1])
    newest_of_each = ordered.drop_columns(["order"]).filter(pa.array(is_newest))
    return (*written, _unwritten(newest_of_each.combine_chunks()))


def newest(parts: Sequence[Part], remembered: int) -> tuple[Part, ...]:
    """Return the parts that hold the last names, as many as are remembered at least."""
    last_first = sorted(parts, key=lambda part: part.last, reverse=True)
    counts = accumulate((part.count for part in last_first), initial=0)
    chosen = [part for part, above in zip(last_first, counts, strict=False) if above < remembered]
    return tuple(part for part in parts if part in chosen)


def look_up(
    files: Sequence[FolderFile], parts: Iterable[Part], read: Read
) -> tuple[list[FolderFile], list[FolderFile]]:
    """Return (files that no part has, files that a part has with another size or time).

    The files are sorted; parts are read where they may have one of them.
    """
    names = [file.name for file in files]
    is_known, is_other = np.zeros((2, len(files)), dtype=bool)
    for part in parts:
        start = bisect_left(names, part.first)
        end = bisect_right(names, part.last, start)
        if start == end:
            continue
        rows = read(part)
        matches = pc.index_in(
            pa.array(names[start:end], pa.string()), value_set=rows["name"].combine_chunks()
        )
        is_match = matches.is_valid().to_numpy(zero_copy_only=False)
        rows_of_part = rows.take(matches.drop_null())
        places = start + np.flatnonzero(is_match)
        there = [files[int(place)] for place in places]
        sizes = np.array([file.size for file in there], np.int64)
        times = np.array([file.modified_ms for file in there], np.int64)
        is_known[places] = True
        is_other[places] = (rows_of_part["size"].to_numpy() != sizes) | (
            rows_of_part["modified"].to_numpy() != times
        )
    new, changed = (np.flatnonzero(mask) for mask in (~is_known, is_other))
    return [files[int(place)] for place in new], [files[int(place)] for place in changed]


class Quarantined(Value):
    """A file that could not be read, and is tried again when it has changed."""

    file: FolderFile
    reason: str


class Ledger(Value):
    """All files of one source a table holds."""

    source: str
    generation: int = 0
    """How many commits of this source the table holds."""
    parts: tuple[Part, ...] = ()
    """The oldest first."""
    forgotten: int = 0
    """Files that are in no part any more."""
    forgotten_to: str = ""
    """The last of their names: files up to it count as ingested."""
    quarantined: tuple[Quarantined, ...] = ()
    offsets: Mapping[str, Any] = field(default_factory=dict)
    """Topic → its id, and the next offset of each partition; members of JSON."""
    log: Mapping[str, Any] = field(default_factory=dict)
    """How far a change log is applied; members of JSON."""
    follows: str = ""
    """Name of the ledger's file that this one was read from, or follows; empty if there is none."""

    @property
    def file_count(self) -> int:
        return self.forgotten + sum(part.count for part in self.parts)

    def with_files(self, files: Iterable[FolderFile]) -> "Ledger":
        """Return the next generation, which holds `files` too; the newest of a name counts."""
        listed = list(files)
        parts = (*self.parts, part_of(listed)) if listed else self.parts
        names = {file.name for file in listed}
        quarantined = tuple(each for each in self.quarantined if each.file.name not in names)
        return replace(self, generation=self.generation + 1, parts=parts, quarantined=quarantined)

    def without_files(self) -> "Ledger":
        """Return an empty ledger, to ingest all again."""
        return Ledger(source=self.source, generation=self.generation, follows=self.follows)

    def with_quarantined(self, files: Iterable[Quarantined]) -> "Ledger":
        added = {each.file.name: each for each in files}
        rest = (each for each in self.quarantined if each.file.name not in added)
        return replace(self, quarantined=(*rest, *added.values()))


class Pending(Value):
    """A folder compared with a ledger."""

    new: tuple[FolderFile, ...]
    """Not ingested yet, by name."""
    changed: tuple[FolderFile, ...]
    """Taken in, but since then of another size or time."""
    quarantined: tuple[Quarantined, ...] = ()
    """In quarantine, and as they were then."""

    def refuse_changes(self, folder: str) -> None:
        if self.changed:
            raise InvalidInputError(
                f"{names_text(self.changed)} in '{folder}' changed after being ingested: size or "
                "time differ from the ledger's. Restore them, or land the new rows under new "
                "names.",
                kind="source-changed",
                folder=folder,
                files=len(self.changed),
            )


def compare(listed: Iterable[FolderFile], ledger: Ledger, table: Table | None = None) -> Pending:
    """Compare the files of a folder with those ingested; files that are gone do not matter.

    The table is that of the ledger; None for one that was never written.

    Cost:
        The parts among whose names the folder has some, one after the other.
    """
    files = sorted(listed)
    if ledger.forgotten_to:
        files = files[bisect_right(files, ledger.forgotten_to, key=lambda file: file.name) :]
    named = [file for file in files if file.is_text]  # no other was ever ingested
    new, changed = look_up(named, ledger.parts, lambda part: _rows_of(part, table))
    new += [file for file in files if not file.is_text]
    quarantined = tuple(each for each in ledger.quarantined if each.file in files)
    bad = {each.file for each in quarantined}
    return Pending(
        new=tuple(file for file in new if file not in bad),
        changed=tuple(file for file in changed if file not in bad),
        quarantined=quarantined,
    )


def names_text(files: Iterable[FolderFile]) -> str:
    """Return the first names and how many more there are.

    >>> names_text(FolderFile(name=f"f{n}", size=1, modified_ms=0) for n in range(7))
    'f0, f1, f2, f3, f4 and 2 more'
    """
    names = [file.display_name for file in files]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def property_of(source: str) -> str:
    """Return the snapshot property that names the ledger of a source."""
    return f"{LEDGER_PROPERTY_PREFIX}{source}"


def unless_ingested(ledger: Ledger) -> Condition:
    """Return the condition that the table still has the ledger which another one follows.

    A commit of the same generation is found by its snapshot, as long as that has not expired; and a
    rollback undoes files that this ledger names.
    """
    key = property_of(ledger.source)

    def check(latest: Snapshot | None) -> None:
        named = None if latest is None else latest.properties.get(key)
        if named is not None and named != ledger.follows:
            raise CommitConflictError(
                f"Another run ingested from '{ledger.source}' meanwhile, or the table was rolled "
                "back; nothing was committed. Run it again.",
                kind="ingestion-conflict",
            )

    return check


def ledger_snapshot(table: Table, source: str) -> Snapshot | None:
    """Return the newest snapshot that names a ledger of the source, None if there is none.

    If those that did have expired, the pointer they left decides (`engine.control.ledgers`): then
    it is the newest snapshot, with the ledger of the pointer.

    Cost:
        One read a snapshot, backwards, until the first one found; a process looks at each once.
    """
    key = property_of(source)
    latest = snapshot = oldest = table.latest_snapshot()
    memory = (table.path, key)
    seen_at, seen = _SEEN.get(memory, ("", None))
    while snapshot is not None and key not in snapshot.properties:
        if snapshot.name == seen_at:
            snapshot = seen
            break
        oldest = snapshot
        snapshot = snapshot_or_none(table, snapshot.id - 1)
    if latest is not None and snapshot is not None:
        _remember(memory, latest, snapshot)
    if snapshot is None and latest is not None:
        name = pointed_ledger(table.state.store, key)
        if name is not None:
            return replace(latest, properties={**latest.properties, key: name})
    if snapshot is None and oldest is not None and oldest.id > 1:
        _refuse_lost_ledger(table, source)
    return snapshot


_SEEN: OrderedDict[tuple[str, str], tuple[str, Snapshot]] = OrderedDict()
"""(table, property) → name of the newest snapshot, and the one that has the property for it."""
_LOCK = Lock()


def _remember(memory: tuple[str, str], latest: Snapshot, snapshot: Snapshot) -> None:
    with _LOCK:
        _SEEN[memory] = (latest.name, snapshot)
        _SEEN.move_to_end(memory)
        while len(_SEEN) > _SOURCES_KEPT:
            _SEEN.popitem(last=False)


def _refuse_lost_ledger(table: Table, source: str) -> None:
    of_source = [
        status.name
        for status in table.state.file_io.list_directory(_directory(table))
        if status.name.startswith("ledger-")
        and status.name.endswith(".json")
        and _read(table, status.name).source == source
    ]
    if of_source:
        message = (
            f"Table {table.name} has {len(of_source)} ledgers of source '{source}' below "
            f"'{_directory(table)}', but no snapshot left that names the current one: the "
            "snapshots of its ingestion have expired. Keep them longer; to go on, delete the "
            "ledgers if the source shall be ingested again."
        )
        raise InvalidInputError(message, kind="ledger-expired", table=table.name, source=source)


def load_ledger(table: Table | None, source: str) -> Ledger:
    """Return the ledger of a source that counts; an empty one if there is none, or no table."""
    snapshot = None if table is None else ledger_snapshot(table, source)
    if table is None or snapshot is None:
        return Ledger(source=source)
    return _read(table, snapshot.properties[property_of(source)])


def write_ledger(table: Table, ledger: Ledger, *, remembered: int | None = None) -> str:
    """Write a ledger under a fresh name, and its new part; it counts once a snapshot names it.

    At least so many of the last names are kept as are `remembered`; None keeps all.

    Cost:
        The new files; now and then a merge of parts, of at most `PART_FILES` names.
    """
    most = PART_FILES
    if remembered is not None:
        most = max(1, min(PART_FILES, remembered // _PARTS_REMEMBERED))
    parts = merge_parts(ledger.parts, lambda part: _rows_of(part, table), most=most)
    written = tuple(part if part.file else _write_part(table, part) for part in parts)
    remaining = written if remembered is None else newest(written, remembered)
    dropped = [part for part in written if part not in remaining]
    forgetting = replace(
        ledger,
        parts=remaining,
        forgotten=ledger.forgotten + sum(part.count for part in dropped),
        forgotten_to=max([ledger.forgotten_to, *(part.last for part in dropped)]),
    )
    name = f"ledger-{uuid4()}.json"
    table.state.file_io.write_bytes(f"{_directory(table)}/{name}", ledger_to_json(forgetting))
    return name


def _write_part(table: Table, part: Part) -> Part:
    name, sink = f"ledger-{uuid4()}.parquet", pa.BufferOutputStream()
    papq.write_table(_rows_of(part, table), sink, compression="zstd", use_dictionary=False)
    table.state.file_io.write_bytes(f"{_directory(table)}/{name}", bytes(sink.getvalue()))
    return replace(part, file=name, rows=None)


def _rows_of(part: Part, table: Table | None) -> pa.Table:
    if part.rows is not None:
        return part.rows
    if table is None:
        raise ValueError(f"part '{part.file}' is below a table")
    path = f"{_directory(table)}/{part.file}"
    try:
        data = table.state.file_io.read_bytes(path)
        return papq.read_table(pa.BufferReader(data), schema=_SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        raise _damage(path, error) from error


def _directory(table: Table) -> str:
    return f"{table.path}/ingestion"


def _read(table: Table, name: str) -> Ledger:
    path = f"{_directory(table)}/{name}"
    return replace(ledger_from_json(table.state.file_io.read_bytes(path), path), follows=name)


def ledger_to_json(ledger: Ledger) -> bytes:
    """Return the bytes of a ledger file; its parts are written."""
    members: dict[str, Any] = {
        "version": _VERSION,
        "source": ledger.source,
        "generation": ledger.generation,
        "parts": [[part.file, part.count, part.first, part.last] for part in ledger.parts],
        "forgotten": ledger.forgotten,
        "forgottenTo": ledger.forgotten_to,
    }
    if ledger.quarantined:
        members["leftOut"] = [
            [each.file.name, each.file.size, each.file.modified_ms, each.reason]
            for each in ledger.quarantined
        ]
    if ledger.offsets:
        members["offsets"] = ledger.offsets
    if ledger.log:
        members["log"] = ledger.log
    return json.dumps(members).encode()


def ledger_from_json(data: bytes, path: str) -> Ledger:
    try:
        return _ledger_of(json.loads(data))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damage(path, error) from error


def _damage(path: str, error: Exception) -> FormatError:
    return FormatError(f"'{path}' is no ingestion ledger: {error}.", kind="ledger", path=path)


def _ledger_of(members: Mapping[str, Any]) -> Ledger:
    version, source, generation = members["version"], members["source"], members["generation"]
    if version not in (_WITHOUT_PARTS, _VERSION):
        raise ValueError(f"version {version} is not known")
    if not (isinstance(source, str) and isinstance(generation, int)):
        raise TypeError("its members are of other types")
    if version == _WITHOUT_PARTS:
        files = [_file(*fields) for fields in members["files"]]
        parts = (part_of(files),) if files else ()
        return Ledger(source=source, generation=generation, parts=parts)
    return Ledger(
        source=source,
        generation=generation,
        parts=tuple(
            Part(file=plain_name(file), count=int(count), first=str(first), last=str(last))
            for file, count, first, last in members["parts"]
        ),
        forgotten=int(members["forgotten"]),
        forgotten_to=str(members["forgottenTo"]),
        quarantined=tuple(
            Quarantined(file=_file(*fields), reason=str(reason))
            for *fields, reason in members.get("leftOut", ())
        ),
        offsets=dict(members.get("offsets", {})),
        log=dict(members.get("log", {})),
    )


def _file(name: Any, size: Any, modified: Any) -> FolderFile:
    return FolderFile(name=str(name), size=int(size), modified_ms=int(modified))
