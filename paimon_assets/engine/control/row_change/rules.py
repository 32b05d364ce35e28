"""Which tables take deletes and updates of rows, and which columns may be updated.

    delete    where the newest record wins, or the engine's option makes a -D remove its row
    update    where the engine takes updates, and no sequence group decides which values count

Source: `org.apache.paimon.flink.sink.SupportsRowLevelOperationFlinkTableSink`.
"""

from collections.abc import Iterable
from typing import NoReturn

from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.file_store_scan import FileStoreScan
from paimon_assets.engine.control.scan.visibility import skips_level_0
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.merge.merge_rules import MergeRules, merge_rules_of
from paimon_assets.engine.spec.merge.sequence_padding import padding_of
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.options.all_options import (
    BUCKET_KEY,
    IGNORE_DELETE,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    SEQUENCE_AUTO_PADDING,
    SEQUENCE_FIELD,
)
from paimon_assets.engine.spec.paths import POSTPONE_BUCKET
from paimon_assets.engine.spec.schema.schema import BucketMode


def check_deletable(store: FileStore) -> None:
    """Refuse tables in which a record of kind -D does not remove its row."""
    if not store.schema.has_primary_key:
        return
    rules = merge_rules_of(store.schema)
    if rules.ignore_delete:
        _refuse(
            store, "delete", f"'{IGNORE_DELETE.key}' = true drops deletes. Open the table with"
            f" '{IGNORE_DELETE.key}' = false to delete rows of it"
        )  # fmt: skip
    traits = rules.traits
    if not traits.newest_wins and not rules.remove_on_delete:
        option = traits.delete_option
        out = "drop whole partitions" if option is None else f"set '{option.key}' to true"
        _refuse(
            store, "delete", f"'{MERGE_ENGINE.key}' = {traits.engine} does not remove a row when it"
            f" is deleted; {out}"
        )  # fmt: skip
    fields = store.schema.typed_options.get(SEQUENCE_FIELD)
    if fields and not traits.newest_wins:
        # The -D has the values of the visible row, which a retraction's need not have reached.
        _refuse(
            store, "delete", f"'{SEQUENCE_FIELD.key}' may bring a stored retraction after the"
            f" delete; write records of kind -D with a later '{fields[0]}'"
        )  # fmt: skip
    _check_padding(store, "delete")


def check_updatable(store: FileStore, columns: Iterable[str]) -> None:
    """Refuse tables and columns in which a new record does not replace its row."""
    schema = store.schema
    options = schema.typed_options
    for names, what in (
        (schema.primary_keys, "part of the primary key"),
        (schema.partition_keys, "a partition key"),
        (options.get(BUCKET_KEY), "part of the bucket key"),
        (options.get(SEQUENCE_FIELD), "a sequence field"),
        ((options.get(ROWKIND_FIELD),), "the row kind"),
    ):
        found = sorted(set(columns) & set(names))
        if found:
            raise InvalidInputError(
                f"Column '{found[0]}' of table '{store.label}' is {what} and cannot be updated;"
                " delete the rows and write them again.",
                kind="update-column",
                details={"table": store.label, "column": found[0]},
            )
    if schema.has_primary_key:
        _check_replacing(store, merge_rules_of(schema))
        _check_padding(store, "update")


def _check_replacing(store: FileStore, rules: MergeRules) -> None:
    if not rules.traits.takes_updates:
        _refuse(
            store, "update", f"'{MERGE_ENGINE.key}' = {rules.traits.engine} does not replace a row"
            " by a newer one; write records for it to merge"
        )  # fmt: skip
    if rules.groups or rules.aggregations:
        _refuse(
            store, "update", "its sequence groups decide which values are taken; write records"
            " with the sequence fields"
        )  # fmt: skip


def _check_padding(store: FileStore, verb: str) -> None:
    """The padded number of a record with the same time need not be larger than the stored one."""
    if padding_of(store.schema) is not None:
        _refuse(
            store, verb, f"'{SEQUENCE_AUTO_PADDING.key}' lets arrival decide within a time which"
            " record wins; write a record with a later time"
        )  # fmt: skip


def check_settled(store: FileStore, snapshot: Snapshot) -> None:
    """Refuse a change while rows wait for a compaction: they would come back, or be lost."""
    postponed = store.schema.bucket_mode is BucketMode.POSTPONE
    hidden = skips_level_0(store.schema)
    if not postponed and not hidden:
        return
    for entry in FileStoreScan(store).live_files(snapshot):
        if entry.bucket == POSTPONE_BUCKET or (hidden and entry.file.level == 0):
            raise UnsupportedFeatureError(
                f"Rows of table '{store.label}' cannot be changed: file '{entry.file.file_name}'"
                " waits for a compaction, which no read sees yet. Compact the table first.",
                kind="rows-wait",
                details={"table": store.label, "file": entry.file.file_name},
            )


def _refuse(store: FileStore, verb: str, reason: str) -> NoReturn:
    raise UnsupportedFeatureError(
        f"Cannot {verb} rows of table '{store.label}': {reason}.",
        kind=f"row-{verb}",
        details={"table": store.label},
    )
