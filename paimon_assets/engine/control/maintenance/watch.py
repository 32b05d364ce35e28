"""What others do while files are deleted: new tags, new branches, a rollback.

Who needs a snapshot makes its tag, branch or mark first and looks for the snapshot then; who
deletes a snapshot deletes it first and looks for those then. Whatever the order of the four steps,
at least one of the two sees the other, and gives way.
"""

from dataclasses import dataclass
from typing import Self

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.rollback import rolled_back_to
from paimon_assets.engine.fileio.base import FileStatus


@dataclass(frozen=True, slots=True)
class Watch:
    """The tags and branches of a table when a deletion began to be planned."""

    store: FileStore
    tags: frozenset[FileStatus]
    """With the marks of rollbacks."""
    managed_tags: frozenset[str]
    """Those a catalog keeps, be it elsewhere than in the table's directory."""
    branches: frozenset[str]

    @classmethod
    def of(cls, store: FileStore) -> Self:
        """Look at what there is; before anything is planned. Cost: two listings."""
        tags = store.file_io.list_directory(store.paths.tag_directory)
        managed = store.managed
        names = () if managed is None else managed.catalog.list_tags(managed.identifier)
        return cls(store, frozenset(tags), frozenset(names), frozenset(store.branches.list()))

    @property
    def rollbacks(self) -> list[int]:
        """Snapshots that rollbacks which have not finished go back to."""
        return rolled_back_to(status.name for status in self.tags)

    def has_more(self) -> bool:
        """Whether there is a tag, a branch or a mark by now that there was not. Cost: as `of`."""
        now = type(self).of(self.store)
        return bool(
            now.tags - self.tags
            or now.managed_tags - self.managed_tags
            or now.branches - self.branches
        )
