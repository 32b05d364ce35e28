"""What to sort: the files of each partition of a table without key and buckets, not foreign ones.

Source: `org.apache.paimon.flink.action.SortCompactAction`. Java replaces partitions, and rows that
others append meanwhile are lost; here the files that were read are compacted, and no others.
"""

from collections.abc import Iterable, Iterator

from paimon_assets.engine.contract.clustering import ClusterOrder
from paimon_assets.engine.contract.tasks.compact_task import CompactTask
from paimon_assets.engine.control.compact.buckets import LiveBucket
from paimon_assets.engine.control.compact.unit import PlannedUnit, files_of_size, target_bytes_of
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import BucketMode, TableSchema
from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot

_CLUSTERING = "clustering"
_MOST_COLUMNS = 16
_UNORDERED = frozenset({TypeRoot.VARIANT, TypeRoot.BLOB})


def check_order(table: str, schema: TableSchema, order: ClusterOrder | None) -> None:
    """Refuse what cannot be sorted.

    Raises:
        InvalidInputError: Kind `cluster-order`; names the table and the column.
    """

    def refused(reason: str) -> InvalidInputError:
        return InvalidInputError(
            f"Table '{table}' cannot be sorted: {reason}.",
            kind="cluster-order",
            details={"table": table},
        )

    if schema.has_primary_key or schema.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        raise refused("it has a primary key or buckets, which order its rows")
    names = () if order is None else order.columns
    if not 0 < len(names) <= _MOST_COLUMNS or len(set(names)) < len(names):
        raise refused(f"name 1 to {_MOST_COLUMNS} different columns to sort by")
    for name in names:
        column = schema.by_name.get(name)
        if column is None:
            raise refused(f"it has no column '{name}'")
        if not isinstance(column.type, AtomicType) or column.type.root in _UNORDERED:
            raise refused(f"values of column '{name}' ({column.type}) have no order")


def clustering_units(schema: TableSchema, buckets: Iterable[LiveBucket]) -> Iterator[PlannedUnit]:
    """Yield a unit for each partition that has files of its own.

    Raises:
        InvalidInputError: Kind `cluster-order`; an index file marks rows of foreign files too.
    """
    target = target_bytes_of(schema)
    for bucket in buckets:
        files = [file for file in bucket.files if file.external_path is None]
        if not files:
            continue
        names = {file.file_name for file in files}
        for index in bucket.index_files:
            if not names.issuperset(v.data_file_name for v in index.deletion_vectors or ()):
                raise InvalidInputError(
                    f"Table '{bucket.store.label}' cannot be sorted: index file "
                    f"'{index.file_name}' marks deleted rows of files that are not the table's.",
                    kind="cluster-order",
                    details={"table": bucket.store.label, "file": index.file_name},
                )
        expected = files_of_size(sum(file.file_size for file in files), target)
        yield PlannedUnit(
            task=CompactTask(
                split=bucket.split(files),
                index_files=bucket.index_files,
                index_directory=bucket.index_directory,
            ),
            reason=_CLUSTERING,
            runs_before=len(bucket.files),
            runs_after=len(bucket.files) - len(files) + expected,
            expected_files=expected,
        )
