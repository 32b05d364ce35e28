"""Changes of a table that write no rows: emptying it, or some of its partitions.

Source: `org.apache.paimon.table.sink.BatchTableCommit`.
"""

import uuid
from collections.abc import Sequence

from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.commit.partition_filter import PartitionSpec, bound_spec
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_assets.engine.spec.predicate.predicate import Predicate, any_of


def truncate(store: FileStore, *, commit_user: str | None = None) -> Snapshot:
    """Empty a table in one snapshot; older snapshots keep their rows until they expire.

    Args:
        store: The table.
        commit_user: Emptying again under one name finds the first time.
    """
    return _empty(store, None, commit_user)


def drop_partitions(
    store: FileStore, specs: Sequence[PartitionSpec], *, commit_user: str | None = None
) -> Snapshot:
    """Empty all partitions that match one of some specs, in one snapshot.

    Args:
        store: The table.
        specs: Each maps partition columns, perhaps not all, to values; None is null.
        commit_user: As for `truncate`.

    Raises:
        InvalidInputError: Kind `partition-spec` or `literal`: no spec, an empty one, a column that
            is none of the partition keys, or a value that is none of its column.
    """
    predicates: list[Predicate] = []
    for spec in specs:
        predicate = bound_spec(store.schema, spec, table=store.label)
        if predicate is not None:
            predicates.append(predicate)
    if not predicates or len(predicates) < len(specs):
        raise InvalidInputError(
            f"Name the partitions of table '{store.label}' to drop; to empty it, truncate it.",
            kind="partition-spec",
            details={"table": store.label},
        )
    return _empty(store, any_of(predicates), commit_user)


def _empty(store: FileStore, predicate: Predicate | None, commit_user: str | None) -> Snapshot:
    return FileStoreCommit(store).overwrite(
        (),
        commit_user=commit_user or str(uuid.uuid4()),
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        predicate=predicate,
    )
