"""Plan: the splits of a read, and the context of their readers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema
from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.contract.split import DataSplit
from paimon_assets.engine.contract.wire import SPLIT_VERSION, dump_split
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.table_scan import TableScan
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.predicate.predicate import Predicate, all_of, bind
from paimon_assets.engine.spec.segments.segment import TEXT_FORMATS
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.read.limits import fitting_parts


def read_context(
    store: FileStore, scan: TableScan, names: tuple[str, ...], predicate: Predicate | None
) -> ReadContext:
    """Return the context of a scan's splits, read as columns `names`."""
    return ReadContext(
        table=store.label,
        schema=store.schema,
        file_schemas=tuple(schema for schema in scan.file_schemas if schema.id != store.schema.id),
        columns=names,
        predicate=predicate,
        file_io=store.file_io.spec,
        text_options=scan.text_options,
        fallback=scan.fallback,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one read; any executor can run it anywhere."""

    context: ReadContext
    splits: tuple[DataSplit, ...]
    snapshot: Snapshot | None
    """The snapshot read, or up to which changes are; None if the table has none yet."""
    next_snapshot: int | None = None
    """Where a consumer continues once the rows are dealt with (`ConsumerManager.advance`)."""
    skipped_snapshots: tuple[int, ...] = ()
    """OVERWRITE snapshots whose changes an incremental read leaves out."""
    oldest: Snapshot | None = None
    """The oldest snapshot whose files are read; if it expires meanwhile, the read fails."""
    tied_by: str = ""
    """What a reader must know besides the splits; empty if they say all."""

    def __repr__(self) -> str:
        at = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot.id}"
        rows = counted(sum(split.row_count for split in self.splits), "stored row")
        splits = counted(len(self.splits), "split")
        return f"Plan({self.context.table} at {at}: {splits}, {rows})"

    def to_bytes(self, version: int = SPLIT_VERSION, *, for_java: bool = True) -> bytes:
        """Return the splits as Java's DataSplits, one behind the other, to be read elsewhere.

        Columns, filter and credentials are not among them: who reads says those
        (`ReadBuilder.plan_from`, or Java's `DataSplit.deserialize` until the bytes end).

        Args:
            version: Of the DataSplits, 2 to 9: 8 is that of Paimon 1.3 to 2.0, 9 of 2.1.
            for_java: Whether others may read them; False lets files of csv, json and text segments
                leave too, which `ReadBuilder.plan_from` alone reads right.

        Raises:
            InvalidInputError: The splits do not say all a reader must know (kind `split-tied`), or
                have such a file (`split-text`), or the version has no place for it
                (`split-version`).
        """
        if self.tied_by:
            raise InvalidInputError(
                f"The plan of table '{self.context.table}' cannot leave as splits: {self.tied_by}.",
                kind="split-tied",
                details={"table": self.context.table},
            )
        if for_java:
            self._refuse_texts()
        return b"".join(dump_split(split, version) for split in self.splits)

    def _refuse_texts(self) -> None:
        for split in self.splits:
            for file in (*split.before_files, *split.data_files):
                if file.file_format in TEXT_FORMATS:
                    raise InvalidInputError(
                        f"The plan of table '{self.context.table}' has '{split.path_of(file)}', a"
                        f" {file.file_format} file of a segment, which Java would read as it reads"
                        " its own files: a header as a row. Give the splits to this engine alone"
                        " (`to_bytes(for_java=False)`), or write the rows to the table.",
                        kind="split-text",
                        details={"table": self.context.table, "path": split.path_of(file)},
                    )

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> "Plan":
        """Return the plan for some columns (all for None) and, where it fits, a filter more."""
        schema = self.context.schema
        fitting = fitting_parts(predicate, schema)
        context = replace(
            self.context,
            columns=self.context.columns if columns is None else tuple(columns),
            predicate=all_of([self.context.predicate, fitting and bind(fitting, schema)]),
        )
        return replace(self, context=context)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        return to_arrow_schema(self.context.fields)
