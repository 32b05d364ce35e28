"""The ledger of a source that counts, once no snapshot names it any more.

    snapshots ─▶ the newest that has the property decides ─▶ else the pointer of the source

Commits of this engine carry the property on; those of other engines do not, and the snapshots that
had it expire. So a commit that names a ledger leaves a pointer, and the expiration of the last such
snapshot writes it again: `<branch>/ingestion/pointer-<hash of the property>-<snapshot>.json`. The
one with the highest number that the table has reached counts. So a slow writer replaces no other
one's; expirations delete those below.
"""

import hashlib
import json
import re
from collections import defaultdict

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.numbered_files import read_or_none
from paimon_assets.engine.errors import FormatError, NotFoundError
from paimon_assets.engine.spec.metadata.snapshot import LEDGER_PROPERTY_PREFIX, Snapshot
from paimon_assets.engine.spec.paths import plain_name

_NAME = re.compile(r"pointer-([0-9a-f]+)(?:-(\d+))?\.json")
"""Earlier versions wrote no number into the name."""


def ledgers_named(snapshot: Snapshot) -> dict[str, str]:
    """Return property → name of a ledger file, as a snapshot has them."""
    return {
        key: name
        for key, name in snapshot.properties.items()
        if key.startswith(LEDGER_PROPERTY_PREFIX)
    }


def point_to(store: FileStore, snapshot: Snapshot, key: str) -> None:
    """Keep a snapshot's entry of one source after it expires."""
    path = f"{store.paths.pointer_directory}/pointer-{_hash(key)}-{snapshot.id}.json"
    members = {"property": key, "ledger": snapshot.properties[key], "snapshot": snapshot.id}
    store.file_io.replace(path, json.dumps(members, ensure_ascii=False).encode())


def pointed_ledger(store: FileStore, key: str) -> str | None:
    """Return the ledger that counts if no snapshot names one; deleting it gives up the source."""
    name = pointed_ledgers(store, _hash(key)).get(key)
    return name if name is not None and store.file_io.exists(store.paths.ledger(name)) else None


def ledger_files(store: FileStore, name: str) -> tuple[str, ...]:
    """Return the names of a ledger and its parts, or its own name if it cannot be read."""
    try:
        members = json.loads(store.file_io.read_bytes(store.paths.ledger(name)))
        return (name, *(plain_name(part[0]) for part in members.get("parts", ())))
    except (NotFoundError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return (name,)


def pointed_ledgers(store: FileStore, of: str = "") -> dict[str, str]:
    """Return property → ledger of the pointers that count, of all or of one property by its hash.

    Cost: one listing, and each is read.
    """
    listed = _list_ledgers(store)  # first: a pointer is written after its snapshot
    newest, pointed = (listed and store.snapshots.latest_id()) or 0, dict[str, str]()
    for hashed, paths in listed.items():
        reached = [number for number in paths if number <= newest]
        pointer = _read(store, paths[max(reached)]) if reached and of in ("", hashed) else None
        if pointer is not None and pointer[2] <= newest:
            pointed[pointer[0]] = pointer[1]
    return pointed


def forget_older(store: FileStore) -> None:
    """Delete the pointers below those that count."""
    listed = _list_ledgers(store)
    newest = store.snapshots.latest_id() or 0
    for paths in listed.values():
        for number in sorted(number for number in paths if number <= newest)[:-1]:
            store.file_io.delete_file(paths[number])


def forget_after(store: FileStore, snapshot_id: int) -> None:
    """Delete the pointers to entries of later snapshots, which are undone."""
    for paths in _list_ledgers(store).values():
        for number, path in paths.items():
            pointer = None if number else _read(store, path)
            if (number if pointer is None else pointer[2]) > snapshot_id:
                store.file_io.delete_file(path)


def _list_ledgers(store: FileStore) -> dict[str, dict[int, str]]:
    """Return hash of a property → snapshot → path of its pointers; 0 where the name has none."""
    listed = defaultdict[str, dict[int, str]](dict)
    for status in store.file_io.list_directory(store.paths.pointer_directory):
        if name := _NAME.fullmatch(status.name):
            listed[name[1]][int(name[2] or 0)] = status.path
    return listed


def _read(store: FileStore, path: str) -> tuple[str, str, int] | None:
    data = read_or_none(store.file_io, path)
    if data is None:
        return None
    try:
        members = json.loads(data)
        return str(members["property"]), plain_name(members["ledger"]), int(members["snapshot"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FormatError(
            f"'{path}' is no pointer to a ledger: {error}.", kind="ledger", path=path
        ) from error


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]
