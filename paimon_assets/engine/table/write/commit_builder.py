"""CommitBuilder: the user and identifier of a snapshot, by which it is made once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.spec.metadata.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    CommitKind,
    Snapshot,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBuilder:
    """A commit being described; every `with_` returns a new builder."""

    commit_kinds: ClassVar[tuple[CommitKind, ...]] = tuple(CommitKind)
    """Which snapshots count as made before."""

    store: FileStore
    commit_user: str | None = None
    commit_identifier: int = BATCH_COMMIT_IDENTIFIER
    properties: Mapping[str, str] = field(default_factory=dict)

    def with_commit_user(self, user: str) -> Self:
        """Set the commit user. A retry with one (user, identifier) finds the first commit.

        Commits of all sorts count: a user who writes and changes rows numbers the commits.
        """
        return replace(self, commit_user=user)

    def with_commit_identifier(self, identifier: int) -> Self:
        """Number the commits of one user, such as a stream's batches."""
        return replace(self, commit_identifier=identifier)

    def with_properties(self, properties: Mapping[str, str]) -> Self:
        """Keep these texts in the snapshot."""
        return replace(self, properties={**self.properties, **properties})

    def find_committed(self) -> Snapshot | None:
        """Return the snapshot this user and identifier made before, if any.

        Raises:
            FormatError, StorageError: Metadata is damaged, or the storage failed.
        """
        if self.commit_user is None:
            return None
        return self.store.snapshots.find_commit(
            self.commit_user, self.commit_identifier, self.commit_kinds
        )
