"""Erasing rows from all of a table: from every snapshot, tag, changelog and branch.

    all data files that any of them names ─▶ rows that match ─▶ files without them (`rows`)
        ─▶ metadata without them (`metadata`) ─▶ old files deleted

Of a table with a primary key all records go of each key that has one which matches, whatever its
kind and age: an older one would come back, or a merge would miss it.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import Literal

import pyarrow as pa
from msgspec import Struct, field

from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.contract.executor import TaskBatch, TaskRunner
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import dump, load
from paimon_assets.engine.contract.write_tasks import RowChange, dump_rows
from paimon_assets.engine.control.clock import SystemClock
from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.listeners import listeners
from paimon_assets.engine.control.maintenance import expire_snapshots as expiry
from paimon_assets.engine.control.maintenance import references as ref
from paimon_assets.engine.control.maintenance.orphan_files import DAY_MS, clean_orphan_files
from paimon_assets.engine.control.maintenance.tag_files import drop_tag
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.control.scan.file_pruning import FilePruning
from paimon_assets.engine.control.segments import (
    HOLD_TAG_PREFIX,
    is_live_in,
    registered_text_segments,
)
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import CommitConflictError, NotFoundError, UnsupportedFeatureError
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
)
from paimon_assets.engine.spec.options.all_options import DATA_EVOLUTION_ENABLED
from paimon_assets.engine.spec.paths import MAIN_BRANCH
from paimon_assets.engine.spec.predicate.predicate import bind, fields_of
from paimon_assets.engine.spec.segments.segment import is_external
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.plan import Where, as_predicate
from paimon_assets.engine.table.table import Table
from paimon_assets.erasure import metadata as erased
from paimon_assets.erasure.ledgers import ledgers_with, texts_of
from paimon_assets.erasure.task import ERASE_TASK, ErasedFile, EraseTask

_MOST_ROUNDS = 20
_PAUSE_MS = 500
_ALL = 2**31 - 1
ELSEWHERE = (
    "sources and topics that rows were read from, and tables that were made of this one",
    "dead-letter and change-log tables: erase there, too",
    "backups, versions that the storage keeps, and caches of readers",
)
"""Places that no run looks at."""


class History(StrEnum):
    """The treatment of states before the newest."""

    KEEP = "keep"
    """They stay, without the rows."""
    EXPIRE = "expire"
    """Tags that hold such rows go, and if older snapshots or changelogs do, all older ones."""


class ErasedPlace(Value):
    """The rows that a snapshot, a tag or a changelog held."""

    branch: str
    kind: str
    name: str
    files: int
    """Data and changelog files with such rows that it named, be it as deleted."""
    rows: int
    """Rows in these files."""


class EraseReport(Value):
    """The outcome of an erasure, or of its dry run."""

    table: str
    where: str
    history: History
    dry_run: bool
    rows: int = 0
    """Rows that are gone, or would be: each stored one, so versions of a key count each."""
    files: int = 0
    """Data files that held such rows."""
    rewritten: int = 0
    """Of these, how many were written again; the rest held nothing else."""
    deleted: int = 0
    """Files of any kind that were deleted, but for those of an expiration."""
    places: tuple[ErasedPlace, ...] = ()
    expired: tuple[str, ...] = ()
    """Snapshots, tags and changelogs that went."""
    outside: tuple[str, ...] = ()
    """Files that may hold such rows, and are foreign or of no state."""
    elsewhere: tuple[str, ...] = ELSEWHERE

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left that this table reads or stores."""
        return not self.outside

    def lines(self) -> list[str]:
        """Return the report as lines for a terminal."""
        verb = "would be erased" if self.dry_run else "erased"
        rows, files = counted(self.rows, "stored row"), counted(self.files, "file")
        places = [
            f"{place.kind} {place.name} of {place.branch}: {counted(place.rows, 'row')} in "
            f"{counted(place.files, 'file')}"
            for place in self.places
        ]
        return [
            f"{self.table}: {rows} in {files} {verb}, {self.rewritten} written again",
            *places,
            *(f"expired: {name}" for name in self.expired),
            *(f"left: {text}" for text in self.outside),
            *(f"not looked at: {text}" for text in self.elsewhere),
        ]


class _File(Value):
    """A data file that some root names."""

    store: FileStore
    entry: ManifestEntry
    is_changelog: bool

    def split(self) -> DataSplit:
        path = self.store.file_path(self.entry)
        return DataSplit(
            snapshot_id=0,
            partition=self.entry.partition,
            bucket=self.entry.bucket,
            bucket_path=path.rpartition("/")[0],
            data_files=(self.entry.file,),
        )


def erase(
    table: Table,
    where: Where,
    *,
    history: History | Literal["keep", "expire"] = "keep",
    dry_run: bool = False,
    orphans_older_than_ms: int = DAY_MS,
    executor: TaskRunner | None = None,
) -> EraseReport:
    """Erase rows from all snapshots, tags, changelogs and branches, and from all their files.

    >>> report = erase(table, "id = 2", history=History.KEEP, dry_run=True)
    >>> report.rows, report.places[0].kind
    (1, 'snapshot')

    With a primary key, all records go of each key of which one matches. Without, rows that
    match go, deleted ones too. Statistics of `analyze` are dropped. Killed, run it again.

    Args:
        table: The table, with all its branches.
        where: Rows to erase.
        history: `keep` replaces the files of each state; with `expire` tags go that hold such
            rows, and all snapshots and changelogs before the newest snapshot, if one of them
            does and no consumer needs them; the rest is replaced.
        dry_run: Only report.
        orphans_older_than_ms: Files that no state names are deleted if they are older; younger
            ones may be of a write that runs, and are in the report.
        executor: Reads and writes the files; this process by default.

    Raises:
        InvalidInputError: `where` does not parse, or names no column of each branch.
        UnsupportedFeatureError: A catalog keeps the snapshots (kind `erase-managed`), or files
            hold columns of the same rows (kind `erase-data-evolution`). Nothing was changed.
        NotFoundError: A data file that a snapshot or tag needs is gone.
        CommitConflictError: Other writers were faster too often; run it again.
        CommitUnknownError: Whether a commit was made is unknown; run it again.

    Cost:
        Reads the manifests of all states, and each data file that may hold such rows by its
        statistics; with a primary key and a filter on other columns, all files of the
        partitions in which a key matches. Memory: entries of all data files, and the keys.
    """
    store, mode = table.maintenance().store, History(history)
    _check(store)
    run = _Erasure(store=store.current(), where=where, executor=executor or EmbeddedExecutor())
    for branch in run.branches:
        bind(as_predicate(where), branch.schema)  # before anything is read
    run.new.read_journals(store)
    roots = run.roots()
    run.find(roots, only_counts=dry_run or mode is History.EXPIRE)
    places, expired = run.places(roots), tuple[str, ...]()
    rows = sum(file.rows for file in run.new.files.values())
    found = [file for file in run.new.files.values() if file.rows]
    rewritten = sum(file.rows < file.before.row_count for file in found)
    deleted = 0
    if not dry_run:
        run.new.write_journal(store)
        if mode is History.EXPIRE:
            expired = tuple(run.expire(roots))
            run.new.files.clear()
            run.clean.clear()
        run.replace()
        for listener in listeners(run.branches[0].schema.options):
            listener.rebuild(run.branches[0])
        deleted = run.new.delete_needless(store)
        clean = partial(clean_orphan_files, store)
        deleted += len(clean(older_than_ms=orphans_older_than_ms, dry_run=False).files)
        young = clean(older_than_ms=0)
        run.outside += [f"file that no state names: {each.path}" for each in young.files]
        run.outside += [f"foreign file in the table's folder: {each}" for each in young.foreign]
    run.outside += run.ledgers()
    return EraseReport(
        table=store.label,
        where=str(where),
        history=mode,
        dry_run=dry_run,
        rows=rows,
        files=len(found),
        rewritten=rewritten,
        deleted=deleted,
        places=places,
        expired=expired,
        outside=tuple(dict.fromkeys(run.outside)),
    )


def _check(store: FileStore) -> None:
    """Refuse tables of which states cannot be replaced."""
    if store.managed is not None:
        raise UnsupportedFeatureError(
            f"Cannot erase rows of table '{store.label}': its catalog keeps the snapshots, and they"
            " cannot be replaced through it. Open the table by the warehouse's path, where the"
            " catalog's server stores it, with its writers stopped.",
            kind="erase-managed",
            table=store.label,
        )


class _Erasure(Struct, kw_only=True):
    store: FileStore
    where: Where
    executor: TaskRunner
    branches: list[FileStore] = field(default_factory=list)
    """Main first: files that several have are read as it has them."""
    new: erased.ErasedRows = field(default_factory=erased.ErasedRows)
    clean: set[ref.FileKey] = field(default_factory=set)
    """Files without such rows."""
    searched: set[ref.FileKey] = field(default_factory=set)
    """Files whose rows that match have given their keys."""
    missing: set[ref.FileKey] = field(default_factory=set)
    """Files that are not there."""
    outside: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        branches = [self.store, *ref.other_branches(self.store)]
        self.branches = sorted(branches, key=lambda each: each.paths.branch != MAIN_BRANCH)

    def roots(self) -> list[erased.Root]:
        return [root for branch in self.branches for root in erased.roots_of(branch)]

    def find(self, roots: Iterable[erased.Root], *, only_counts: bool = False) -> None:
        """Look for the rows in all files that were not looked at, and write these without them."""
        files: dict[ref.FileKey, _File] = {}
        for root in roots:
            for entry, is_changelog in root.entries():
                key = ref.key_of(entry)
                if key not in files and key not in self.new.files:
                    files[key] = _File(store=root.store, entry=entry, is_changelog=is_changelog)
        self._find_keys(files)
        for store in self.branches:
            some = (file for key, file in files.items() if key not in self.clean)
            needed = self._files_to_read(store, [file for file in some if file.store is store])
            external = [file for file in needed if self._is_external(file)]
            own = [file for file in needed if not self._is_external(file)]
            for counts, batch in ((only_counts, own), (True, external)):
                for file, result in self._run(store, batch, only_counts=counts):
                    self._take(file, result)

    def _take(self, file: _File, result: ErasedFile) -> None:
        key, before, new = ref.key_of(file.entry), file.entry.file, result.file
        rows = len(result.positions) // 8
        if rows and self._is_external(file):
            place = f"file of a segment: {before.external_path}"
            self.outside.append(f"{place}, {counted(rows, 'row')}")
        if not rows and not result.is_missing:
            self.clean.add(key)
            return
        is_bare = self._is_external(file)
        if result.is_missing and not is_bare:
            self.missing.add(key)
        self.new.files[key] = erased.NewFile(
            before=before,
            file=before if is_bare else new,
            positions=b"" if is_bare else result.positions,
            is_bare=is_bare,
        )
        if new is not None:
            names = (new.file_name, *new.extra_files)
            self.new.paths.update(f"{file.split().bucket_path}/{name}" for name in names)
            self.new.renamed.add((before.file_name, new.file_name))

    def _is_external(self, file: _File) -> bool:
        return is_external(file.store.schema.typed_options, file.entry.file)

    def _matches_keys(self, store: FileStore) -> bool:
        """Whether other records of a key go with the one that matches."""
        keys = set(store.schema.primary_keys)
        return bool(keys) and not fields_of(bind(as_predicate(self.where), store.schema)) <= keys

    def _find_keys(self, files: dict[ref.FileKey, _File]) -> None:
        for store in self.branches:
            if not self._matches_keys(store):
                continue
            pruning = self._pruning(store)
            fresh = [
                file
                for key, file in files.items()
                if file.store is store and key not in self.searched and pruning.may_hold(file.entry)
            ]
            for file, result in self._run(store, fresh, returns_keys=True):
                if result.keys is not None:
                    self.new.keys.append(result.keys)
                    self.new.partitions.add(file.entry.partition)
                    self.clean.clear()
            self.searched.update(ref.key_of(file.entry) for file in fresh)
            if len(self.new.keys) > 1:
                parts = [pa.ipc.open_stream(each).read_all() for each in self.new.keys]
                names = list(store.schema.primary_keys)
                distinct = pa.concat_tables(parts).group_by(names).aggregate([])
                self.new.keys = [dump_rows(distinct)]

    def _pruning(self, store: FileStore) -> FilePruning:
        predicate = bind(as_predicate(self.where), store.schema)
        return FilePruning(store.schema, predicate, store.schemas.schema_or_none)

    def _files_to_read(self, store: FileStore, files: Iterable[_File]) -> list[_File]:
        """Return the files that may hold such rows, or records of their keys."""
        if not self._matches_keys(store):
            pruning = self._pruning(store)
            return [file for file in files if pruning.may_hold(file.entry)]
        if not self.new.keys:
            return []
        moves = not set(store.schema.partition_keys) <= set(store.schema.primary_keys)
        return [file for file in files if moves or file.entry.partition in self.new.partitions]

    def _run(
        self,
        store: FileStore,
        files: Sequence[_File],
        *,
        only_counts: bool = True,
        returns_keys: bool = False,
    ) -> Iterator[tuple[_File, ErasedFile]]:
        if not files:
            return
        schema = store.schema
        by_key = self._matches_keys(store) and not returns_keys
        predicate = None if by_key else bind(as_predicate(self.where), schema)
        change = RowChange(
            read=store.rewrite_context((file.entry.file.schema_id for file in files), predicate),
            write=WriteContext(
                table=store.label,
                table_path=store.table_path,
                schema=schema,
                file_io=store.file_io.spec,
            ),
            only_counts=only_counts,
            source=self.new.keys[0] if by_key else None,
            on=schema.primary_keys if by_key else (),
        )
        self._refuse_joined(change, files)
        tasks = [
            EraseTask(split=file.split(), is_changelog=file.is_changelog, returns_keys=returns_keys)
            for file in files
        ]
        batch = TaskBatch(
            name=ERASE_TASK,
            shared=dump(change),
            payloads=tuple(map(dump, tasks)),
            weights=tuple(file.entry.file.file_size for file in files),
            file_io=store.file_io.spec,
            subject=store.label,
        )
        for number, answer in self.executor.map_tasks(batch):
            yield files[number], load(ErasedFile, answer)

    @staticmethod
    def _refuse_joined(change: RowChange, files: Iterable[_File]) -> None:
        """Refuse files of whose rows other files hold other columns: these would be misjoined."""
        for file in files:
            schema = change.read.schemas_by_id[file.entry.file.schema_id]
            columns = file.entry.file.write_cols
            if schema.typed_options.get(DATA_EVOLUTION_ENABLED) or (
                columns is not None and not set(schema.field_names) <= set(columns)
            ):
                label = change.read.table
                raise UnsupportedFeatureError(
                    f"Cannot erase rows of table '{label}': it has '{DATA_EVOLUTION_ENABLED.key}',"
                    " and other files are joined to its rows by position. Write the rows that stay"
                    " to a new table, and drop this one.",
                    kind="erase-data-evolution",
                    table=label,
                )

    def places(self, roots: Sequence[erased.Root]) -> tuple[ErasedPlace, ...]:
        """Return the roots that name files with such rows; text segments are noted as outside."""
        places = []
        for root in roots:
            keys = {ref.key_of(entry) for entry, _ in root.entries()} & self.new.files.keys()
            found = [file for key in keys if (file := self.new.files[key]).rows]
            if found:
                rows = sum(file.rows for file in found)
                place = ErasedPlace(
                    branch=root.store.paths.branch,
                    kind=root.kind,
                    name=root.name,
                    files=len(found),
                    rows=rows,
                )
                places.append(place)
        for segment in registered_text_segments(self.store):
            if any(is_live_in(root.store, segment, root.snapshot) for root in roots):
                self.outside.append(
                    f"text segment {segment.id}, which was not searched: {segment.folder}"
                )
        return tuple(places)

    def ledgers(self) -> list[str]:
        """Return the ledgers that have a text of the filter, which are noted as outside."""
        texts = {
            text
            for branch in self.branches
            for text in texts_of(bind(as_predicate(self.where), branch.schema))
        }
        names = ledgers_with(self.store, texts)
        return [f"ledger with a text of the filter: ingestion/{name}" for name in names]

    def expire(self, roots: Iterable[erased.Root]) -> Iterator[str]:
        """Let the states go that hold such rows, but for the newest and those that are held."""
        held = {
            (root.store.paths.branch, root.kind, root.name): root
            for root in roots
            if any(ref.key_of(entry) in self.new.files for entry, _ in root.entries())
        }
        for store in self.branches:
            branch, newest = store.paths.branch, store.snapshots.latest()
            for (of, kind, name), root in held.items():
                is_own = of == branch and not name.startswith(HOLD_TAG_PREFIX)
                if kind == "tag" and is_own and root.tag is not None:
                    drop_tag(store, root.tag)
                    yield f"tag {name} of {branch}"
            if newest is None or not any(
                of == branch and kind != "tag" and root.snapshot.id < newest.id
                for (of, kind, _), root in held.items()
            ):
                continue
            retention = expiry.Retention(
                min_count=1, max_count=_ALL, time_ms=0, limit=_ALL, before=newest.id
            )
            for word, expire in (
                ("snapshot", expiry.expire_snapshots),
                ("changelog", expiry.expire_changelogs),
            ):
                gone = expire(store, retention=retention)
                yield from (f"{word} {number} of {branch}" for number in gone.snapshot_ids)

    def replace(self) -> None:
        """Replace all roots that name files with such rows, until none does.

        It waits while states are deleted or tags replaced, which are refused from the journal on.
        """
        for _ in range(_MOST_ROUNDS):
            watch = ref.Watch.of(self.store)
            self.__post_init__()
            if any(branch.tags.is_undoing() for branch in self.branches):
                SystemClock().sleep_millis(_PAUSE_MS)
                continue
            roots = self.roots()
            self.find(roots)
            self._check_missing(roots)
            changed = self.new.changes(roots)
            if not changed and not watch.has_more():
                return
            if changed:
                self.new.write_journal(self.branches[0])
            if not self._renew_newest(roots, changed):
                for root, snapshot in changed:
                    root.put(snapshot)
        label = self.branches[0].label
        raise CommitConflictError(
            f"Table '{label}': in {_MOST_ROUNDS} rounds other commands always changed it, or wrote"
            " more such rows. Stop the writers, and erase again. If a rollback or a deletion of a"
            " tag was killed, clean orphans of all ages before.",
            kind="erase-overtaken",
            table=label,
        )

    def _renew_newest(
        self, roots: Iterable[erased.Root], changed: Iterable[tuple[erased.Root, Snapshot]]
    ) -> bool:
        """Give branches whose newest root is to be replaced a snapshot above it, without the rows.

        A commit may have been made since the roots were read: it names the newest root as its base.
        """
        newest = {
            root.store.paths.branch: root.snapshot.id for root in roots if root.kind == "snapshot"
        }
        stores = [
            root.store
            for root, snapshot in changed
            if root.kind == "snapshot"
            and newest[root.store.paths.branch] == root.snapshot.id
            and snapshot.names_other_files(root.snapshot)
        ]
        for store in stores:
            FileStoreCommit(store).restate(
                partial(self.new.state, store),
                kind=CommitKind.COMPACT,
                commit_user=NewUser(),
                commit_identifier=BATCH_COMMIT_IDENTIFIER,
            )
        return bool(stores)

    def _check_missing(self, roots: Iterable[erased.Root]) -> None:
        """Raise if a file is gone that a reader needs: the table is damaged."""
        for root in roots if self.missing else ():
            if root.kind != "changelog":
                for *_, name in ref.live_among(root.store, root.snapshot, self.missing):
                    raise NotFoundError(
                        f"Data file '{name}' of table '{root.store.label}', which {root.kind}"
                        f" {root.name} names, is gone. Mend or expire it first.",
                        kind="erase-missing-file",
                        table=root.store.label,
                        file=name,
                    )
