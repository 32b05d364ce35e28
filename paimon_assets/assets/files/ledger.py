"""Which files a table has taken in: exactly once each, whatever crashes.

A ledger is one JSON file below the table, `ingestion/ledger-<uuid>.json`: every file of one source
that was taken in so far. It is written before the commit, and the commit's snapshot names it in the
property `paimon-assets.ingestion.<source>`. So the newest snapshot that carries the property says
what the table holds; a ledger no snapshot names belongs to a commit that never happened, and counts
for nothing. Rolling the table back rolls the ledger back.

Two runs that ingest at once plan the same generation, and one commit wins: the commit user is the
source, the commit identifier the generation.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

from paimon_assets.engine.errors import FormatError, InvalidInputError, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.paths import LEDGER_PROPERTY_PREFIX
from paimon_assets.engine.table.table import Table

_VERSION = 1
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SourceFile:
    """A file of a source folder."""

    name: str
    """Path inside the folder; it is what identifies the file."""
    size_bytes: int
    modified_ms: int
    """Epoch milliseconds; 0 if the storage does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All files of one source a table holds."""

    source: str
    generation: int = 0
    """How many commits of this source the table holds."""
    files: tuple[SourceFile, ...] = ()

    def with_files(self, files: Iterable[SourceFile]) -> "Ledger":
        """Return the next generation, which holds `files` too."""
        joined = tuple(sorted({*self.files, *files}))
        return Ledger(source=self.source, generation=self.generation + 1, files=joined)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A folder compared with a ledger."""

    new: tuple[SourceFile, ...]
    """Not taken in yet, by name."""
    changed: tuple[SourceFile, ...]
    """Taken in, but since then of another size or time."""

    def refuse_changes(self, folder: str) -> None:
        """Raise if files changed after they were taken in.

        Raises:
            InvalidInputError: Names them.
        """
        if self.changed:
            raise InvalidInputError(
                f"{names_text(self.changed)} in '{folder}' changed after being ingested: size or "
                "time differ from the ledger's. Restore them, or land the new rows under new "
                "names.",
                kind="source-changed",
                details={"folder": folder, "files": len(self.changed)},
            )


def compare(listed: Iterable[SourceFile], ledger: Ledger) -> Pending:
    """Compare the files of a folder with those taken in; files that are gone do not matter."""
    known = {file.name: file for file in ledger.files}
    files = sorted(listed)
    return Pending(
        new=tuple(file for file in files if file.name not in known),
        changed=tuple(file for file in files if file.name in known and file != known[file.name]),
    )


def names_text(files: Iterable[SourceFile]) -> str:
    """Return the first names and how many more there are.

    >>> names_text(SourceFile(name=f"f{n}", size_bytes=1, modified_ms=0) for n in range(7))
    'f0, f1, f2, f3, f4 and 2 more'
    """
    names = [file.name for file in files]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def property_of(source: str) -> str:
    """Return the snapshot property that names the ledger of a source."""
    return f"{LEDGER_PROPERTY_PREFIX}{source}"


def ledger_snapshot(table: Table, source: str) -> Snapshot | None:
    """Return the newest snapshot that names a ledger of the source, None if there is none.

    Raises:
        InvalidInputError: There is none, although the source was ingested: the snapshots that
            named its ledger have expired (kind `ledger-expired`).

    Cost:
        One read a snapshot, backwards, until the first one found.
    """
    key = property_of(source)
    snapshot = oldest = table.latest_snapshot()
    while snapshot is not None and key not in snapshot.properties:
        oldest = snapshot
        snapshot = _before(table, snapshot)
    if snapshot is None and oldest is not None and oldest.id > 1:
        _refuse_lost_ledger(table, source)
    return snapshot


def _before(table: Table, snapshot: Snapshot) -> Snapshot | None:
    if snapshot.id == 1:
        return None
    try:
        return table.snapshot(snapshot.id - 1)
    except NotFoundError:
        return None


def _refuse_lost_ledger(table: Table, source: str) -> None:
    of_source = [name for name, ledger in _stored(table) if ledger.source == source]
    if of_source:
        raise InvalidInputError(
            f"Table {table.name} has {len(of_source)} ledgers of source '{source}' below "
            f"'{_directory(table)}', but no snapshot left that says which of them counts: the "
            "snapshots of its ingestion have expired. Keep them longer; to go on, delete the "
            "ledgers if the source shall be ingested anew.",
            kind="ledger-expired",
            details={"table": table.name, "source": source},
        )


def _stored(table: Table) -> Iterator[tuple[str, Ledger]]:
    for status in table.file_io.list_directory(_directory(table)):
        if status.name.startswith("ledger-") and status.name.endswith(".json"):
            yield status.name, _read(table, status.name)


def load_ledger(table: Table, source: str, snapshot: Snapshot | None) -> Ledger:
    """Return the ledger a snapshot names, an empty one for None.

    Raises:
        NotFoundError: The ledger file is gone.
        FormatError: It is damaged.
    """
    if snapshot is None:
        return Ledger(source=source)
    return _read(table, snapshot.properties[property_of(source)])


def write_ledger(table: Table, ledger: Ledger) -> str:
    """Write a ledger under a fresh name; it counts once a snapshot names it.

    Returns:
        The file's name.
    """
    name = f"ledger-{uuid4()}.json"
    table.file_io.write_bytes(f"{_directory(table)}/{name}", ledger_to_json(ledger))
    return name


def _directory(table: Table) -> str:
    return f"{table.path}/ingestion"


def _read(table: Table, name: str) -> Ledger:
    path = f"{_directory(table)}/{name}"
    return ledger_from_json(table.file_io.read_bytes(path), path)


def ledger_to_json(ledger: Ledger) -> bytes:
    """Return the bytes of a ledger file."""
    members = {
        "version": _VERSION,
        "source": ledger.source,
        "generation": ledger.generation,
        "files": [[file.name, file.size_bytes, file.modified_ms] for file in ledger.files],
    }
    return json.dumps(members, ensure_ascii=False).encode()


def ledger_from_json(data: bytes, path: str) -> Ledger:
    """Parse a ledger file.

    Raises:
        FormatError: Not a ledger, or of a newer version; names the file.
    """
    try:
        return _ledger_of(json.loads(data))
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"'{path}' is no ingestion ledger: {error}.", kind="ledger", details={"path": path}
        ) from error


def _ledger_of(members: Mapping[str, object]) -> Ledger:
    if members["version"] != _VERSION:
        raise ValueError(f"version {members['version']} is not known")
    source, generation, files = members["source"], members["generation"], members["files"]
    if not (isinstance(source, str) and isinstance(generation, int) and isinstance(files, list)):
        raise TypeError("its members are of other types")
    return Ledger(
        source=source,
        generation=generation,
        files=tuple(
            SourceFile(name=str(name), size_bytes=int(size), modified_ms=int(modified))
            for name, size, modified in files
        ),
    )
