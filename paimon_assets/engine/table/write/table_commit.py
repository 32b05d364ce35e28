"""Changes of a table that write no rows: emptying it, or some of its partitions.

Source: `org.apache.paimon.table.sink.BatchTableCommit`.
"""

from collections.abc import Sequence

from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.commit.partition_filter import PartitionSpec, bound_spec
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.managers.commit_history import NewUser
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from paimon_assets.engine.spec.predicate.predicate import Predicate, any_of


def drop_partitions(
    store: FileStore, specs: Sequence[PartitionSpec], *, commit_user: str | None = None
) -> Snapshot:
    """Empty all partitions that match one of some specs, in one snapshot.

    A spec maps partition columns, perhaps not all, to values; None is null.

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
    return empty(store, any_of(predicates), commit_user=commit_user)


def empty(
    store: FileStore, predicate: Predicate | None = None, *, commit_user: str | None = None
) -> Snapshot:
    """Empty the partitions a bound predicate is true for, the whole table for None.

    Emptying again under one name finds the first time.
    """
    return FileStoreCommit(store).overwrite(
        (),
        commit_user=commit_user or NewUser(),
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        predicate=predicate,
    )
