"""The operations of actors: our own, unchanged, each with its effect on rows.

A task is an operation and a number, which is its own: its key, its value, and with its name the
user of its commits. So whoever reads a snapshot knows which task made it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from msgspec.structs import replace

from paimon_assets import (
    CommitConflictError,
    EmbeddedExecutor,
    Identifier,
    Schema,
    Table,
    TableCatalog,
    add_column,
)
from paimon_assets.assets.files import ledger
from paimon_assets.engine.control.catalog.catalog import LoadedTable
from paimon_assets.engine.control.catalog.managed import CatalogEnvironment
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.control.segments import FolderFile
from paimon_assets.engine.spec.metadata.snapshot import Tag
from paimon_assets.erasure import erase
from paimon_assets.iceberg.follow import repair
from paimon_assets.review import discard, promote
from paimon_assets.server.external_snapshot import publish_external

Rows = Mapping[int, tuple[int | None, ...]]
"""Key → the values it may have: one, but for upserts at the same time; None is no row."""
TABLE, OTHER_NAME = "d.t", "d.u"
EXECUTOR = EmbeddedExecutor(1)
SHARED = 2
"""The key that upserts and deletes are about."""
TAG = "kept"
"""A tag that is there before, of the first snapshot."""
_UNDONE_TO = 2
"""The snapshot that rollbacks go to."""
NAMED = 3
"""The snapshot that new tags and branches name; before, none does."""
NEWEST = Retention(min_count=1, max_count=1, time_ms=0, limit=100)
AGE_MS = 3_600_000
"""How old orphans are; no write of a process that lives is older."""


@dataclass(frozen=True, slots=True)
class Task:
    """One operation of one actor."""

    name: str
    number: int

    @property
    def user(self) -> str:
        return f"{self.name} {self.number}"

    def is_of(self, actor: str) -> bool:
        return self.number // 100 == int(actor) + 1


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation, and the effect of its commit on rows."""

    perform: Callable[[TableCatalog, Task], object]
    change: Callable[[Rows, int], Rows] = lambda rows, _: rows
    undoes: bool = False
    """Whether earlier commits may be gone after it."""


def rows_of(table: Table, rows: Mapping[int, int]) -> pa.Table:
    """Return rows with a table's columns; those that were added have no values."""
    columns: list[list[int | None]] = [[*rows.keys()], [*rows.values()]]
    columns += [[None] * len(rows)] * (len(table.schema.fields) - 2)
    arrays = [pa.array(each, pa.int32()) for each in columns]
    return pa.table(arrays, names=[field.name for field in table.schema.fields])


def table_of(catalog: TableCatalog, name: str = TABLE) -> Table:
    return catalog.get_table(name)


def _write(
    table: Table, task: Task, rows: Mapping[int, int], *, overwrites: bool = False
) -> object:
    builder = table.new_write_builder().with_commit_user(task.user)
    if overwrites:
        builder = builder.with_overwrite({})
    return builder.write(rows_of(table, rows), EXECUTOR).snapshot


def or_erased(rows: Rows) -> Rows:
    """Return rows that an erasure, which runs, has or has not taken the shared one from."""
    return {**rows, SHARED: (None, *rows.get(SHARED, ()))}


def _promote(catalog: TableCatalog, task: Task) -> object:
    """Write to a preview of a pull request, and promote it; else discard it."""
    name = f"pr-{task.number}"
    preview = TableCatalog(catalog._catalog, preview=name)
    made = _append(table_of(preview), task)
    refusals = [one.refusal for one in promote(catalog, name, [TABLE], executor=EXECUTOR)]
    if refusals != [""]:
        discard(catalog, name, [TABLE])
        raise CommitConflictError(str(refusals))
    return made


def _drop(catalog: TableCatalog, _: Task) -> None:
    catalog.drop_table(TABLE)
    create(catalog)


def create(catalog: TableCatalog, **options: str) -> Table:
    """Make the table: keyed, or with an option `bucket` of -1 without a key."""
    keys = [] if options.get("bucket") == "-1" else ["id"]
    schema = Schema.of(
        {"id": "INT", "v": "INT"}, primary_keys=keys, options={"bucket": "1", **options}
    )
    return catalog.create_table(TABLE, schema)


ICEBERG = {
    "metadata.iceberg.storage": "table-location",
    "metadata.iceberg.format-version": "3",
    "metadata.iceberg.previous-versions-max": "1",
}
SOURCE = "landing"


def _ingest(table: Table, task: Task) -> object:
    """Take in the next file of a source, as an ingestion asset does, without Dagster's step."""
    before = ledger.load_ledger(table, SOURCE)
    known = before.generation
    after = before.with_files([FolderFile(name=f"f{known:04}", size=1, modified_ms=1)])
    name, key = ledger.write_ledger(table, after), ledger.property_of(SOURCE)
    builder = table.new_write_builder().with_commit_user(key)
    builder = builder.with_commit_identifier(after.generation).with_properties({key: name})
    builder = builder.with_condition(ledger.unless_ingested(after))
    number = INGESTED + after.generation
    snapshot = builder.write(rows_of(table, {number: number}), EXECUTOR).snapshot
    if snapshot is None or snapshot.properties.get(key) != name:
        return None  # another one took that file
    return snapshot


INGESTED = 100_000
"""Keys of ingested rows are above: the generation of the source is added."""


def _append(table: Table, task: Task) -> object:
    return _write(table, task, {task.number: task.number})


class _Server:
    """The catalog server's part in a commit: the function behind its route, in this process."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def load_snapshot(self, _: object) -> object:
        return self._store.snapshots.latest()

    def list_tags(self, _: object) -> list[str]:
        return [tag.name for tag in self._store.tags.list()]

    def get_tag(self, _: object, name: str) -> Tag:
        return self._store.tags.get(name)

    def commit_snapshot(
        self, _identifier: object, _uuid: str, snapshot: object, *, base_uuid: object, **_: object
    ) -> bool:
        return publish_external(self._store, snapshot, base_uuid=base_uuid)  # type: ignore[arg-type]

    def load_table(self, *_: object, **__: object) -> LoadedTable:
        store = self._store.reopen()
        return _load(store, None)


def _load(store: FileStore, server: "_Server | None") -> LoadedTable:
    return LoadedTable(
        location=store.table_path,
        schema=store.schema,
        file_io=store.file_io,
        uuid="-",
        versions=server,  # type: ignore[arg-type]
    )


def _serve(catalog: TableCatalog, task: Task) -> object:
    """Append through a catalog server, which publishes the snapshot its client made."""
    store, server = table_of(catalog)._store, _Server(table_of(catalog)._store)
    environment = CatalogEnvironment(
        catalog=server,  # type: ignore[arg-type]
        identifier=Identifier("d", "t"),
        loaded=_load(store, server),
    )
    client = Table(replace(store, environment=environment))
    return _write(client, task, {task.number: task.number})


def _on(
    call: Callable[[Table, Task], object],
    change: Callable[[Rows, int], Rows] = lambda rows, _: rows,
    *,
    undoes: bool = False,
) -> Operation:
    """Return an operation on the table as it is when it begins."""
    return Operation(lambda catalog, task: call(table_of(catalog), task), change, undoes)


def _put(rows: Rows, key: int) -> Rows:
    return {**rows, key: (key,)}


def _revert(table: Table, task: Task) -> object:
    """Let main become a new branch, which lacks main's newest snapshot."""
    name = f"branch-{task.number}"
    table.branches.create(name, snapshot_id=NAMED)
    return table.branches.fast_forward(name)


OPERATIONS: dict[str, Operation] = {
    "append": _on(_append, _put),
    "upsert": _on(
        lambda t, task: _write(t, task, {SHARED: task.number}),
        lambda rows, n: {**rows, SHARED: (n,)},
    ),
    "overwrite": _on(
        lambda t, task: _write(t, task, {task.number: task.number}, overwrites=True),
        lambda _, n: {n: (n,)},
    ),
    "delete": _on(
        lambda t, task: (
            t.new_row_change_builder()
            .with_commit_user(task.user)
            .delete(f"id = {SHARED}", EXECUTOR)
            .snapshot
        ),
        lambda rows, _: {key: v for key, v in rows.items() if key != SHARED},
    ),
    "erase": _on(
        lambda t, _: erase(t, f"id = {SHARED}", orphans_older_than_ms=AGE_MS, executor=EXECUTOR)
    ),
    "compact": _on(
        lambda t, task: (
            t.new_compaction_builder()
            .with_commit_user(task.user)
            .with_strategy("full")
            .run(EXECUTOR)
            .snapshot
        )
    ),
    "rescale": _on(
        lambda t, task: t.rescale(EXECUTOR, buckets=2 + task.number % 2, commit_user=task.user)
    ),
    "analyze": _on(lambda t, task: t.analyze(commit_user=task.user).snapshot),
    "expire": _on(lambda t, _: expire_snapshots(t._store, retention=NEWEST)),
    "clean": _on(lambda t, _: clean_orphan_files(t._store, older_than_ms=AGE_MS, dry_run=False)),
    "rollback": _on(lambda t, _: t.rollback_to(_UNDONE_TO).snapshot, undoes=True),
    "undo": _on(lambda t, _: t.rollback_to(NAMED).snapshot, undoes=True),
    "tag": _on(lambda t, task: t.tags.create(f"tag-{task.number}", NAMED)),
    "untag": _on(lambda t, _: t.tags.delete(TAG)),
    "retag": _on(lambda t, _: t.tags.replace(TAG, NAMED)),
    "branch": _on(lambda t, task: t.branches.create(f"branch-{task.number}", snapshot_id=NAMED)),
    "forward": _on(lambda t, _: t.branches.fast_forward("side"), undoes=True),
    "revert": _on(_revert, undoes=True),
    "promote": Operation(_promote, _put),
    "follow": _on(lambda t, _: repair(t._store)),
    "alter": _on(lambda t, task: t.alter([add_column(f"c{task.number}", "INT")])),
    "rename": Operation(lambda catalog, _: catalog.rename_table(TABLE, OTHER_NAME)),
    "drop": Operation(_drop, undoes=True),
    "ingest": _on(_ingest),
    "serve": Operation(_serve, _put),
}
