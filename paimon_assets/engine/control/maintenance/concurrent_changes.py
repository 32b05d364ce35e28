"""Changes of others while files are deleted: new tags, new branches, a rollback.

Who needs a snapshot makes its tag, branch or mark first and looks for the snapshot then; who
deletes a snapshot deletes it first and looks for those then. Whatever the order of the four steps,
at least one of the two sees the other, and gives way.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.rollback import rolled_back_to
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.fileio.base import FileStatus
from paimon_assets.engine.spec.paths import MAIN_BRANCH


@dataclass(frozen=True, slots=True)
class Watch:
    """The tags and branches of a table when a deletion began to be planned."""

    store: FileStore = field(compare=False)
    tags: frozenset[FileStatus]
    """Those of the branch at hand, with the marks of rollbacks."""
    other_tags: frozenset[FileStatus]
    """Those of the table's other branches, which share files with it."""
    managed_tags: frozenset[tuple[str, str]]
    """(branch, name) of those a catalog keeps, be it elsewhere than in the table's directory."""
    branches: frozenset[str]

    @classmethod
    def of(cls, store: FileStore) -> Self:
        """Read the tags and branches, before anything is planned.

        Cost:
            A listing of branches, and one of tags for main and each of them.
        """
        branches = frozenset(store.branches.list())
        others = {MAIN_BRANCH, *branches} - {store.paths.branch}
        tags = {
            name: frozenset(store.file_io.list_directory(store.paths.of_branch(name).tag_directory))
            for name in (store.paths.branch, *others)
        }
        managed = set[tuple[str, str]]()
        if store.managed is not None:
            for at in map(store.managed.at_branch, tags):
                with suppress(NotFoundError):  # it was renamed or deleted since
                    names = at.catalog.list_tags(at.identifier)
                    managed.update((at.identifier.branch, name) for name in names)
        own = tags.pop(store.paths.branch)
        other_tags = frozenset[FileStatus]().union(*tags.values())
        return cls(store, own, other_tags, frozenset(managed), branches)

    @property
    def rollbacks(self) -> list[int]:
        """Snapshots that rollbacks which have not finished go back to."""
        return rolled_back_to(status.name for status in self.tags)

    def has_more(self) -> bool:
        """Whether there is a tag, a branch or a mark by now that there was not. Cost: as `of`."""
        now = type(self).of(self.store)
        return bool(
            now.tags - self.tags
            or now.other_tags - self.other_tags
            or now.managed_tags - self.managed_tags
            or now.branches - self.branches
        )
