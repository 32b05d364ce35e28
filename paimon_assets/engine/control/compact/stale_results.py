"""Results of a compaction that no longer fit the table, because of other commits."""

from collections.abc import Sequence

from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.control.commit.changes import changes_of
from paimon_assets.engine.control.commit.checks import CommitChecks
from paimon_assets.engine.control.commit.request import CommitRequest
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.metadata.snapshot import CommitKind
from paimon_assets.engine.spec.options.all_options import BUCKET


def affected_messages(store: FileStore, messages: Sequence[CommitMessage]) -> list[bool]:
    """Return for each message whether it conflicts with the newest snapshot by itself.

    Cost:
        Live files of the messages' buckets, once for every halving that leads to a message that
        conflicts: few, where few do.
    """
    latest, checks = store.snapshots.latest(), CommitChecks(store)

    def conflicts(part: Sequence[CommitMessage]) -> bool:
        changes = changes_of(
            part, CommitKind.COMPACT, default_buckets=store.schema.typed_options.get(BUCKET)
        )
        request = CommitRequest(
            changes=changes, commit_user="", commit_identifier=0, kind=CommitKind.COMPACT
        )
        try:
            checks.plan(request, latest)
        except CommitConflictError:
            return True
        return False

    def affected(part: Sequence[CommitMessage]) -> list[bool]:
        if not part or not conflicts(part):
            return [False] * len(part)
        if len(part) == 1:
            return [True]
        middle = len(part) // 2
        return affected(part[:middle]) + affected(part[middle:])

    return affected(messages)
