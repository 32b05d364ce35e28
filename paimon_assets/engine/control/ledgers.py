"""The ledger of a source that counts, once no snapshot names it any more.

    snapshots ─▶ the newest that has the property decides ─▶ else the pointer of the source

Commits of this engine carry the property on; those of other engines do not, and the snapshots that
had it expire. So a commit that names a ledger leaves a pointer, and the expiration of the last such
snapshot writes it again: `<branch>/ingestion/pointer-<hash of the property>.json`.
"""

import hashlib
import json

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.numbered_files import read_or_none
from paimon_assets.engine.errors import FormatError, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import LEDGER_PROPERTY_PREFIX, Snapshot
from paimon_assets.engine.spec.paths import plain_name

_PREFIX, _SUFFIX = "pointer-", ".json"


def ledgers_named(snapshot: Snapshot) -> dict[str, str]:
    """Return property → name of a ledger file, as a snapshot has them."""
    return {
        key: name
        for key, name in snapshot.properties.items()
        if key.startswith(LEDGER_PROPERTY_PREFIX)
    }


def point_to(store: FileStore, snapshot: Snapshot, key: str) -> None:
    """Keep a snapshot's entry of one source after it expires; a later one's stays."""
    path = f"{store.paths.pointer_directory}/{_name(key)}"
    pointer = _read(store, path)
    if pointer is not None and pointer[2] > snapshot.id:
        newest = store.snapshots.latest()
        if newest is not None and pointer[2] <= newest.id:  # else a rollback undid it
            return
    members = {"property": key, "ledger": snapshot.properties[key], "snapshot": snapshot.id}
    data = json.dumps(members, ensure_ascii=False).encode()
    store.file_io.replace(path, data)


def pointed_ledger(store: FileStore, key: str) -> str | None:
    """Return the ledger that counts if no snapshot names one; deleting it gives up the source."""
    pointer = _read(store, f"{store.paths.pointer_directory}/{_name(key)}")
    newest = store.snapshots.latest()
    if pointer is None or newest is None or pointer[2] > newest.id:
        return None
    return pointer[1] if store.file_io.exists(store.paths.ledger(pointer[1])) else None


def ledger_files(store: FileStore, name: str) -> tuple[str, ...]:
    """Return the names of a ledger and of its parts; of one that is gone or damaged, its own."""
    try:
        members = json.loads(store.file_io.read_bytes(store.paths.ledger(name)))
        return (name, *(plain_name(part[0]) for part in members.get("parts", ())))
    except (NotFoundError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return (name,)


def pointed_ledgers(store: FileStore) -> dict[str, str]:
    """Return property → ledger of all pointers of a branch. Cost: one listing, and each is read."""
    return {key: name for key, name, _ in _pointers(store).values()}


def forget_after(store: FileStore, snapshot_id: int) -> None:
    """Delete the pointers to entries of later snapshots, which are undone."""
    for path, (_, _, number) in _pointers(store).items():
        if number > snapshot_id:
            store.file_io.delete_file(path)


def _pointers(store: FileStore) -> dict[str, tuple[str, str, int]]:
    """Return path → (property, ledger, snapshot) of all pointers."""
    listed = store.file_io.list_directory(store.paths.pointer_directory)
    return {
        status.path: pointer
        for status in listed
        if status.name.startswith(_PREFIX)
        and status.name.endswith(_SUFFIX)
        and (pointer := _read(store, status.path)) is not None
    }


def _read(store: FileStore, path: str) -> tuple[str, str, int] | None:
    data = read_or_none(store.file_io, path)
    if data is None:
        return None
    try:
        members = json.loads(data)
        return str(members["property"]), plain_name(members["ledger"]), int(members["snapshot"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FormatError(
            f"'{path}' is no pointer to a ledger: {error}.", kind="ledger", details={"path": path}
        ) from error


def _name(key: str) -> str:
    return f"{_PREFIX}{hashlib.sha256(key.encode()).hexdigest()[:32]}{_SUFFIX}"
