"""BranchManager: branches of a table, each with schemas, snapshots and tags of its own.

    <table>/branch/branch-<name>/{schema,snapshot,tag,consumer}

Data, manifests and indexes are the table's: a branch begins as a copy of some metadata. Main does
not know the files of branches, so the tag a branch was made from must stay as long as the branch.
Source: `org.apache.paimon.utils.FileSystemBranchManager`.
"""

import uuid
from collections.abc import Callable

from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.codec.json.metadata_json import snapshot_from_json, snapshot_to_json
from paimon_assets.engine.control.managers.numbered_files import (
    check_file_name,
    known_file_name,
    prefixed_files,
    read_or_none,
)
from paimon_assets.engine.control.managers.schema_manager import SchemaManager
from paimon_assets.engine.control.managers.snapshot_manager import SnapshotManager
from paimon_assets.engine.control.managers.tag_manager import TagManager
from paimon_assets.engine.control.publishing import publish_once
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.metadata.snapshot import BUILT_ON_PROPERTY, Snapshot
from paimon_assets.engine.spec.paths import BRANCH_PREFIX, MAIN_BRANCH, TAG_PREFIX, TablePaths

_MOST_COPIES = 5
AUDIT_PREFIX = "audit_"
"""Prefix of the names of branches that hold one batch, not committed yet, and nothing else."""


class BranchManager:
    """Branches of a table, made from and merged into one of them: main, as a rule."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._schemas = SchemaManager(file_io, paths)
        self._snapshots = SnapshotManager(file_io, paths)
        self._tags = TagManager(file_io, paths)
        self.after_forward: Callable[[], object] = lambda: None
        """Called after a branch became main."""

    def list(self) -> dict[str, int]:
        """Return branch → epoch milliseconds of its last change; main is not listed."""
        files = prefixed_files(self._file_io, self._paths.branches_directory, BRANCH_PREFIX)
        return {name: status.modified_ms for name, status in files.items() if status.is_directory}

    def exists(self, name: str) -> bool:
        return name == MAIN_BRANCH or bool(SchemaManager(self._file_io, self._of(name)).list_ids())

    def create(
        self,
        name: str,
        *,
        tag: str | None = None,
        snapshot_id: int | None = None,
        ignore_if_exists: bool = False,
    ) -> None:
        """Make a branch, whole or not at all: empty, or with the state of a tag or a snapshot."""
        _check_new_name(name)
        if tag is not None and snapshot_id is not None:
            raise errors.InvalidInputError(
                "A branch begins with a tag or with a snapshot, not with both.", kind="branch"
            )
        if not self.exists(name):
            self._make(name, tag, snapshot_id)
        elif not ignore_if_exists:
            raise self._name_conflict(name)

    def delete(self, name: str) -> None:
        """Delete a branch; its data files stay until a cleaning finds them."""
        self._file_io.delete_directory(self._existing(name).branch_directory)

    def rename(self, name: str, new_name: str) -> None:
        """Give a branch another name (on object stores: as whole as a renamed directory)."""
        source = self._existing(name)
        _check_new_name(new_name)
        if self.exists(new_name):
            raise self._name_conflict(new_name)
        try:
            target = self._of(new_name).branch_directory
            self._file_io.rename_directory(source.branch_directory, target)
        except errors.AlreadyExistsError as error:
            raise self._name_conflict(new_name) from error

    def fast_forward(self, name: str, *, keeps_main: bool = False) -> Snapshot:
        """Make main equal to a branch: main's commits since the branch began are undone.

        A branch begins with its first snapshot, or that of an older tag. A crash leaves main at one
        of its own states or of the branch's; call it again.

        With `keeps_main` none is undone: a commit of main that the branch lacks is a
        CommitConflictError (kind `branch-behind`), even one that is published meanwhile.
        """
        self._existing(name)
        if name.startswith(AUDIT_PREFIX):
            message = (
                f"Branch '{name}' of table '{self._paths.label}' holds one batch that was not "
                "committed, and no other row: main would lose all of its own. Read the batch, mend "
                "it and write it again."
            )
            raise errors.InvalidInputError(message, kind="branch-audit", **self._details(name))
        newest = self._forward(name, keeps_main=keeps_main)
        self.after_forward()
        return newest

    def _make(self, name: str, tag: str | None, snapshot_id: int | None) -> None:
        source = None
        if tag is not None:
            source = self._tags.get(tag).snapshot
        elif snapshot_id is not None:
            source = self._snapshots.snapshot(snapshot_id)
        draft = f"{self._paths.branches_directory}/.{uuid.uuid4()}"
        try:
            self._copy_to(draft, self._of(name), source, tag)
            self._file_io.rename_directory(draft, self._of(name).branch_directory)
        except errors.AlreadyExistsError as error:
            raise self._name_conflict(name) from error
        finally:
            self._file_io.delete_directory(draft)
        if source is not None:
            self._look_back(name, source, tag)

    def _forward(self, name: str, *, keeps_main: bool) -> Snapshot:
        with self._tags.undoing():
            return self._take_over(name, keeps_main=keeps_main)

    def _take_over(self, name: str, *, keeps_main: bool) -> Snapshot:
        branch, ours = self._of(name), self._snapshots
        theirs = SnapshotManager(self._file_io, branch)
        if theirs.latest() is None:
            raise self._empty(name)
        # All is read before anything is undone: the branch may be renamed or deleted meanwhile.
        file_io, paths, read = self._file_io, self._paths, self._file_io.read_bytes
        snapshots = {n: read(branch.snapshot(n)) for n in theirs.list_ids()}
        tags = prefixed_files(file_io, branch.tag_directory, TAG_PREFIX)
        tagged = {tag: read(branch.tag(tag)) for tag in tags}
        schemas = {n: read(branch.schema(n)) for n in SchemaManager(file_io, branch).list_ids()}
        if not snapshots or not schemas:
            raise self._missing(name)
        line = {n: snapshot_from_json(data, branch.snapshot(n)) for n, data in snapshots.items()}
        first = min(line)
        # Snapshots of tags are of the branch's line, too, and not of main's later commits.
        tagged_snapshots = {
            tag.snapshot.id: tag.snapshot for tag in TagManager(file_io, branch).list()
        }
        if keeps_main:
            return self._extend(name, tagged_snapshots | line, snapshots, schemas, tags=tagged)
        since, oldest = min((tagged_snapshots | line).items())
        shared = since if ours.snapshot_or_none(since) == oldest else since - 1
        # Main is never empty: of its own line, the first one stays until the branch's are there.
        own = min(ours.list_ids(), default=0)
        ours.delete_after(max(shared, own))
        self._tags.delete_after(since - 1)
        for tag, data in tagged.items():
            file_io.replace(paths.tag(tag), data)
        for number, data in schemas.items():
            if read_or_none(file_io, paths.schema(number)) != data:
                file_io.replace(paths.schema(number), data)
        copies = [snapshot for n, snapshot in line.items() if n > shared]
        for _ in range(_MOST_COPIES):
            for snapshot in copies:
                file_io.replace(paths.snapshot(snapshot.id), snapshots[snapshot.id])
            while copies and self.exists(name) and not theirs.is_same(copies[0]):
                first = copies.pop(0).id + 1  # it has expired since
                file_io.delete_file(paths.snapshot(first - 1))
            if shared < own and own not in line:
                file_io.delete_file(paths.snapshot(own))
            self._join(first)
            if all(map(ours.is_same, copies)):
                break
        else:  # rollbacks undid some of them
            message = (
                f"Table '{paths.label}' was rolled back again and again while it became "
                f"branch '{name}'; try again."
            )
            raise errors.CommitConflictError(
                message, kind="branch-overtaken", **self._details(name)
            )
        newest = line[max(line)]
        # Else a commit on the undone line would take the branch's snapshots for expired ones.
        ours.write_earliest_hint(min(first, own or first))
        self._drop_above(newest, max(schemas))
        ours.write_latest_hint(newest.id)
        return newest

    def _extend(
        self,
        name: str,
        line: dict[int, Snapshot],
        snapshots: dict[int, bytes],
        schemas: dict[int, bytes],
        *,
        tags: dict[str, bytes],
    ) -> Snapshot:
        """Publish a branch's snapshots as main's next ones, each as a commit does.

        A commit meanwhile takes a number before, or is built on a published one.
        """
        file_io, paths, ours = self._file_io, self._paths, self._snapshots
        theirs = SnapshotManager(file_io, self._of(name))
        newest = ours.latest()
        number = 0 if newest is None else newest.id
        base = line.get(number)
        if newest is not None and (base is None or not ours.is_same(base)):
            raise self._behind(name, f"snapshot {number}, which the branch lacks")
        copies = [line[n] for n in sorted(snapshots) if n > number]
        if copies and copies[0].id != number + 1:
            raise self._behind(name, f"snapshot {number}, and the branch's next ones expired")
        for schema_id, data in schemas.items():
            path = paths.schema(schema_id)
            if read_or_none(file_io, path) != data and not publish_once(file_io, path, data):
                raise self._behind(name, f"another schema {schema_id} than the branch")
        for snapshot in copies:
            path, data = paths.snapshot(snapshot.id), snapshots[snapshot.id]
            if not publish_once(file_io, path, data) and read_or_none(file_io, path) != data:
                raise self._behind(name, f"snapshot {snapshot.id}, which the branch lacks")
        # A rollback may have undone the base meanwhile, and the branch's snapshots may expire.
        if copies and base is not None and not ours.is_same(base) and ours.break_at(copies[0]):
            for snapshot in filter(ours.is_same, reversed(copies)):
                file_io.delete_file(paths.snapshot(snapshot.id))
            raise self._behind(name, f"no snapshot {number} any more")
        if expired := [s.id for s in copies if not theirs.is_same(s)] if self.exists(name) else []:
            for snapshot_id in [n for n in ours.list_ids() if n <= expired[-1]]:
                file_io.delete_file(paths.snapshot(snapshot_id))
        for tag, data in tags.items():
            file_io.replace(paths.tag(tag), data)
        last = copies[-1] if copies else line[max(line)]
        ours.write_latest_hint(last.id)
        return last

    def _drop_above(self, newest: Snapshot, schema_id: int) -> None:
        """Delete later schemas, and concurrent commits on top of undone snapshots."""
        for number in reversed(self._schemas.list_ids()):
            if number > schema_id:
                self._file_io.delete_file(self._paths.schema(number))
        ours, read = self._snapshots, self._snapshots.snapshot_or_none
        while True:
            last = newest
            above = [s for n in ours.list_ids() if n > newest.id and (s := read(n)) is not None]
            while above and above[0].id == last.id + 1 and above[0].may_follow(last):
                last = above.pop(0)
            if not above:
                return
            for snapshot in filter(ours.is_same, reversed(above)):
                self._file_io.delete_file(self._paths.snapshot(snapshot.id))

    def _join(self, first: int) -> None:
        """Join main's own snapshots and those of a branch to one line without gaps."""
        ours = self._snapshots
        newest = ours.snapshot_or_none(first)
        if newest is None or ours.break_at(newest) is None:
            return
        base = ours.snapshot_or_none(first - 1)
        if base is None:  # main was behind: the rest of it is history with a hole
            for number in ours.list_ids():
                if number < first:
                    self._file_io.delete_file(self._paths.snapshot(number))
        else:
            built_on = {BUILT_ON_PROPERTY: base.delta_manifest_list}
            joined = replace(newest, properties={**newest.properties, **built_on})
            self._file_io.replace(self._paths.snapshot(first), snapshot_to_json(joined))

    def _look_back(self, name: str, source: Snapshot, tag_name: str | None) -> None:
        """Delete a new branch if its source and its files were gone before it was there."""
        if tag_name is None:
            if self._snapshots.has_its_files(source):
                return
        else:
            tag = self._tags.get_or_none(tag_name)
            if tag is not None and tag.snapshot == source:
                return
        self._file_io.delete_directory(self._of(name).branch_directory)
        noun = f"Snapshot {source.id}" if tag_name is None else f"Tag '{tag_name}'"
        message = (
            f"{noun} of table '{self._paths.label}' was deleted or replaced while branch '{name}'"
            " was made from it; make it from another one, or try again."
        )
        kind = "tag-not-found" if tag_name else "snapshot-not-found"
        raise errors.NotFoundError(message, kind=kind, **self._details(name))

    def _copy_to(
        self, directory: str, branch: TablePaths, source: Snapshot | None, tag: str | None
    ) -> None:
        def inside(path: str) -> str:
            return directory + path.removeprefix(branch.branch_directory)

        def copy(path: str, target: str) -> None:
            self._file_io.replace(inside(target), self._file_io.read_bytes(path))

        for number in self._schemas.list_ids():
            if source is None or number <= source.schema_id:
                copy(self._paths.schema(number), branch.schema(number))
        if source is not None:
            snapshot = snapshot_to_json(source)
            self._file_io.write_bytes(inside(branch.snapshot(source.id)), snapshot)
        if tag is not None:
            copy(self._paths.tag(tag), branch.tag(tag))

    def _of(self, name: str) -> TablePaths:
        return self._paths.of_branch(known_file_name("branch", name))

    def _existing(self, name: str) -> TablePaths:
        if name == self._paths.branch or name == MAIN_BRANCH:
            raise errors.InvalidInputError(
                f"'{name}' is not a branch beside the one at hand.", kind="branch"
            )
        if not self.exists(name):
            raise self._missing(name)
        return self._of(name)

    def _missing(self, name: str) -> errors.NotFoundError:
        message = f"Table '{self._paths.label}' has no branch '{name}'."
        return errors.NotFoundError(message, kind="branch-not-found", **self._details(name))

    def _behind(self, name: str, reason: str) -> errors.CommitConflictError:
        message = (
            f"Table '{self._paths.label}' cannot take the snapshots of its branch '{name}': it has "
            f"{reason}. Make the branch again, or stop writers and call 'fast_forward'."
        )
        return errors.CommitConflictError(message, kind="branch-behind", **self._details(name))

    def _empty(self, name: str) -> errors.InvalidInputError:
        message = (
            f"Branch '{name}' of table '{self._paths.label}' has no snapshot yet. Write to it, or"
            " delete it."
        )
        return errors.InvalidInputError(message, kind="branch-empty", **self._details(name))

    def _name_conflict(self, name: str) -> errors.AlreadyExistsError:
        message = f"Table '{self._paths.label}' has a branch '{name}' already."
        return errors.AlreadyExistsError(message, kind="branch-exists", **self._details(name))

    def _details(self, name: str) -> dict[str, str]:
        return {"path": self._paths.table, "branch": name}


def _check_new_name(name: str) -> None:
    check_file_name("branch", name)
    if name == MAIN_BRANCH or name.isdecimal():
        message = f"A branch cannot be called '{name}': neither '{MAIN_BRANCH}' nor a number."
        raise errors.InvalidInputError(message, kind="name", branch=name)
