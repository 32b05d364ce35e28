"""A frame → one snapshot of a table: how it is written, once, and by which step.

`paimon_asset` and `PaimonIOManager` write through here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from paimon_assets.assets.partition_rows import only_rows_of
from paimon_assets.assets.partitions import RunPartitions
from paimon_assets.assets.provenance import StepIdentity
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.tables.consumption import Consumed, advance, as_properties
from paimon_assets.engine.contract.commit_message import WriteReport
from paimon_assets.engine.contract.executor import CountingExecutor
from paimon_assets.engine.control.commit.file_store_commit import Condition
from paimon_assets.engine.errors import AlreadyExistsError, InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.table.frames.frames import Frame, is_spark_frame, spark_name, to_rows
from paimon_assets.engine.table.read.read_builder import ReadBuilder
from paimon_assets.engine.table.table import Table
from paimon_assets.engine.table.write.merge_source import WhenMatched
from paimon_assets.engine.table.write.row_change import RowChangeOutcome
from paimon_assets.engine.table.write.staged_batch import Audit
from paimon_assets.engine.table.write.write_builder import WriteBuilder, WriteOutcome
from paimon_assets.executors import spark_module

_ROWS_EXIST = "rows-exist"


class WriteMode(StrEnum):
    """The mode of a write: what it does to the rows that are there."""

    APPEND = "append"
    """They stay, the new ones are added; a table with a primary key upserts."""
    UPSERT = "upsert"
    """Rows with the same primary key are replaced; the table must have one."""
    OVERWRITE = "overwrite"
    """All are replaced: those of the table, or of the run's partitions if the asset has some."""
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    """Rows of the table partitions in which new rows lie are replaced."""
    ERROR_IF_EXISTS = "error_if_exists"
    """If there are some, in the table or the run's partitions, the run fails."""
    IGNORE = "ignore"
    """If there are some, in the table or the run's partitions, nothing is written."""
    DELETE = "delete"
    """Those that are equal to a row of the frame go: in the primary key, or without one in all
    columns the frame has. Null equals nothing."""


class WriteModeChoice(Enum):
    """The write modes, as the Launchpad has them."""

    append = "append"
    upsert = "upsert"
    overwrite = "overwrite"
    overwrite_partitions = "overwrite_partitions"
    error_if_exists = "error_if_exists"
    ignore = "ignore"
    delete = "delete"


class WriteConfig(dg.Config):
    """The config of a run that writes a table."""

    mode: WriteModeChoice | None = Field(
        default=None,
        description="What becomes of rows that are there already, in this run; as the asset "
        "declares it if left out. delete: the rows that the function returns go.",
    )


def config_of_mode(mode: WriteMode) -> type[WriteConfig]:
    """Return the config of an asset that writes in a mode: the Launchpad opens with it."""
    chosen = WriteModeChoice(mode.value)
    field = Field(default=chosen, description=WriteConfig.model_fields["mode"].description)
    return type(
        WriteConfig.__name__,
        (WriteConfig,),
        {"__annotations__": {"mode": WriteModeChoice}, "mode": field, "__module__": __name__},
    )


def write_mode(text: str, table: str) -> WriteMode:
    """Return the mode of that name.

    Raises:
        InvalidInputError: There is none; lists those that are.
    """
    try:
        return WriteMode(text)
    except ValueError:
        raise InvalidInputError(
            f"Write mode '{text}' of table '{table}' is unknown; expected one of "
            f"{', '.join(WriteMode)}.",
            kind="write-mode",
            details={"table": table},
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOutcome(WriteOutcome):
    """The outcome of a write that deletes rows."""

    rows_deleted: int


@dataclass(frozen=True, kw_only=True)
class TableWrite:
    """One write of one step."""

    table: Table
    step: StepIdentity
    mode: WriteMode = WriteMode.APPEND
    partitions: RunPartitions | None = None
    """The run's, if the asset has some; rows outside them are refused."""
    code_version: str | None = None
    consumed: tuple[Consumed, ...] = ()
    """What the step's inputs have read; their consumers go on once the rows are committed."""
    audit: Audit | None = None
    """Judges the rows before they are committed."""

    def find_committed(self) -> Snapshot | None:
        """Return what an earlier try of the step committed."""
        found = self._identified().find_committed()
        if found is not None:
            advance(self.consumed, found.properties)
        return found

    def replaced(self) -> ReadBuilder | None:
        """Return a read of what the write replaces, None if it is not known before the rows are."""
        if self.mode is not WriteMode.OVERWRITE:
            return None
        read = self.table.new_read_builder()
        return read if self.partitions is None else read.with_filter(self.partitions.predicate())

    def write(
        self, frame: Frame | None, paimon: PaimonCatalogResource, executor_kind: str | None
    ) -> WriteOutcome | None:
        """Write a frame and commit it as one snapshot.

        Returns:
            None if there is no frame, or the mode leaves things as they are.

        Raises:
            InvalidInputError: The frame does not fit, rows lie outside the partitions, or the
                mode is not one for this table; nothing was committed.
            AlreadyExistsError: There are rows, and the mode is `error_if_exists`.
        """
        try:
            outcome = None if frame is None else self._written(frame, paimon, executor_kind)
        except AlreadyExistsError as error:
            if self.mode is WriteMode.IGNORE and error.kind == _ROWS_EXIST:
                return None
            raise
        snapshot = outcome.snapshot if outcome is not None else None
        if snapshot is None and any(item.has_moved for item in self.consumed):
            snapshot = self._identified().commit(())
        advance(self.consumed, {} if snapshot is None else snapshot.properties)
        return outcome

    def _written(
        self, frame: Frame, paimon: PaimonCatalogResource, executor_kind: str | None
    ) -> WriteOutcome:
        writer = self._moded(self._identified())
        if self.audit is not None:
            writer = writer.with_audit(self.audit, branch=self.step.batch_name)
        executor = paimon.new_executor(executor_kind)
        show = paimon.show_values
        if self.mode is WriteMode.DELETE:
            self._check_delete()
        rows = to_rows(frame, executor, self.table.schema, show_values=show)
        if not show:
            writer = writer.with_values_hidden()
        # Of a Spark frame the tasks refuse what lies outside an overwrite: no job of its own.
        is_checked = self.mode is WriteMode.OVERWRITE and is_spark_frame(rows)
        if self.partitions is not None and not is_checked:
            rows = only_rows_of(self.partitions, rows, show_values=show)
        if self.mode is WriteMode.DELETE:
            return self._deleted(rows, executor)
        return writer.write(rows, executor)

    def _deleted(self, rows: Frame, executor: CountingExecutor[Any]) -> WriteOutcome:
        """Delete the rows of the table that are equal to given ones."""
        builder = (
            self.table.new_row_change_builder()
            .with_commit_user(self.step.commit_user)
            .with_properties(self.step.properties(self.code_version))
        )
        if is_spark_frame(rows):
            on = self._compared(rows.columns)
            spark = spark_module("paimon_assets.spark.dataframes.merge")
            outcome: RowChangeOutcome = spark.merge_dataframe(
                builder,
                rows.select(*map(spark_name, on)).distinct(),
                on=on,
                when_matched=WhenMatched.DELETE,
                inserts=False,
            )
        else:
            table = rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows
            on = self._compared(table.column_names)
            keys = table.select(on).group_by(on).aggregate([])
            runner: Any = executor
            outcome = builder.merge(
                keys, on=on, when_matched=WhenMatched.DELETE, inserts=False, executor=runner
            )
        return DeleteOutcome(
            snapshot=outcome.snapshot, report=WriteReport(), rows_deleted=outcome.rows_matched or 0
        )

    def _compared(self, names: Sequence[str]) -> list[str]:
        """Return the columns that decide which rows go."""
        return list(self.table.schema.primary_keys or names)

    def _check_delete(self) -> None:
        if self.consumed or self.audit is not None:
            what = "an input has a consumer" if self.consumed else "checks judge each batch"
            raise InvalidInputError(
                f"Rows of table '{self.table.name}' cannot be deleted by an asset of which {what}: "
                "use mode 'upsert' and a table with 'rowkind.field', or another asset.",
                kind="write-mode",
                details={"table": self.table.name},
            )

    def _identified(self) -> WriteBuilder:
        writer = self.table.new_write_builder().with_commit_user(self.step.commit_user)
        for item in self.consumed:
            writer = writer.with_condition(item.unless_consumed(self.table))
        said = {**self.step.properties(self.code_version), **as_properties(self.consumed)}
        return writer.with_properties(said)

    def _moded(self, writer: WriteBuilder) -> WriteBuilder:
        match self.mode:
            case WriteMode.APPEND | WriteMode.DELETE:
                return writer
            case WriteMode.UPSERT:
                self._require_primary_key()
                return writer
            case WriteMode.ERROR_IF_EXISTS | WriteMode.IGNORE:
                return writer.with_condition(self._no_rows())
            case WriteMode.OVERWRITE_PARTITIONS:
                self._require_partition_keys()
                return writer.with_dynamic_overwrite()
            case WriteMode.OVERWRITE if self.partitions is None:
                return writer.with_overwrite({})
            case WriteMode.OVERWRITE:
                self._require_partition_keys()
                return writer.with_overwrite_where(self.partitions.predicate())

    def _require_primary_key(self) -> None:
        if not self.table.schema.has_primary_key:
            raise InvalidInputError(
                f"Table '{self.table.name}' has no primary key, so nothing says which rows an "
                "upsert replaces. Declare primary_keys, or use mode 'append' or 'overwrite'.",
                kind="write-mode",
                details={"table": self.table.name},
            )

    def _require_partition_keys(self) -> None:
        keys = self.table.schema.partition_keys
        columns = [] if self.partitions is None else [item.name for item in self.partitions.fields]
        others = [name for name in columns if name not in keys]
        if keys and not others:
            return
        partitioning = (
            f"is partitioned by {', '.join(keys)}, not by '{others[0]}'"
            if keys
            else "has no partitions"
        )
        raise InvalidInputError(
            f"Mode '{self.mode}' replaces whole partitions, but table '{self.table.name}'"
            f" {partitioning}."
            " Declare partition_keys, or use mode 'append' or 'upsert'.",
            kind="write-mode",
            details={"table": self.table.name, "column": others[0] if others else None},
        )

    def _has_rows(self) -> bool:
        read = self.table.new_read_builder().with_columns(self.table.schema.field_names[:1])
        if self.partitions is not None:
            read = read.with_filter(self.partitions.predicate())
        with read.to_reader() as reader:
            return any(batch.num_rows for batch in reader)

    def _no_rows(self) -> Condition:
        """Return that there are no rows, now and in what the write is committed on top of."""
        looked_at = self.table.latest_snapshot()
        self._refuse_rows()

        def check(latest: Snapshot | None) -> None:
            if latest is not None and latest != looked_at:
                self._refuse_rows()

        return check

    def _refuse_rows(self) -> None:
        if self._has_rows():
            where = f" in partition '{self.partitions.label}'" if self.partitions else ""
            raise AlreadyExistsError(
                f"Table '{self.table.name}' has rows{where} already, and its write mode is "
                f"'{self.mode}'. Nothing was committed.",
                kind=_ROWS_EXIST,
                details={"table": self.table.name},
            )
