"""Results of a compaction that no longer fit the table, because others committed meanwhile."""

from collections.abc import Sequence

from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.control.commit.changes import changes_of
from paimon_assets.engine.control.commit.checks import CommitChecks
from paimon_assets.engine.control.commit.request import CommitRequest
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import CommitConflictError
from paimon_assets.engine.spec.options import BUCKET
from paimon_assets.engine.spec.snapshot import CommitKind, Snapshot


def affected_messages(store: FileStore, messages: Sequence[CommitMessage]) -> list[bool]:
    """Return for each message whether it conflicts with the newest snapshot by itself.

    Cost:
        Live files of the message's partition, each time.
    """
    latest, checks = store.snapshots.latest(), CommitChecks(store)
    answers = []
    for message in messages:
        changes = changes_of(
            [message],
            CommitKind.COMPACT,
            default_buckets=store.schema.typed_options.get(BUCKET),
        )
        request = CommitRequest(
            changes=changes, commit_user="", commit_identifier=0, kind=CommitKind.COMPACT
        )
        answers.append(_conflicts(checks, request, latest))
    return answers


def _conflicts(checks: CommitChecks, request: CommitRequest, latest: Snapshot | None) -> bool:
    try:
        checks.plan(request, latest)
    except CommitConflictError:
        return True
    return False
