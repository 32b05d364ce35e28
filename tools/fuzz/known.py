"""Known differences: every entry has its row in docs/supported.md."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import BINARY_ROOTS

if TYPE_CHECKING:
    from tools.fuzz.tables import Drawn

LEFT_OUT: Mapping[str, str] = {
    "FLOAT and DOUBLE keys": "tables.Drawn.pool",
    "NaN in a sequence field": "tables.Drawn.pool",
    "`sequence.field.sort-order": "tables._draw_keyed",
    "`<`, `>` on BYTES": "game.Game._leaf",
    "BYTES in a key": "tables._draw_keyed",
    "BYTES as a partition column: filters": "game.Game.draw_filter",
    "BYTES as a partition column: folders": "tables._partitions",
    "a key's only record": "tables._changes",
    "`aggregation.remove-record-on-delete`": "known.hangs_on_compactions",
    "`first_non_null_value` in a sequence": "known.hangs_on_compactions",
    "`file-index.*.columns` of a column": "known.refused_by_us",
    "changes by `delta`": "moments.changes",
    "changes by `diff`": "moments.changes",
    "ORC: TIMESTAMP within": "tables.in_orc",
    "ORC: -0.0": "tables.in_orc",
    "ORC and Avro: a sum of DECIMAL": "tables._aggregates",
    "ORC: keys of CHAR": "tables.Drawn.pool",
    "ORC: a filter on TIMESTAMP WITH": "game.Game.draw_filter",
    "ORC: a filter on CHAR": "game._WRONG_IN_ORC",
    "ORC: a filter on DATE": "tables.in_orc",
    "data evolution: a filter": "game.Game._retyped_ids",
    "Avro with row tracking": "known.refused_by_java",
    "row tracking with deletion vectors": "tables._append",
    "Avro with `file.compression`": "tables._CODECS",
    "a segment's DECIMAL": "moves.add_segment",
    "fast-forward to a branch": "moments._can_forward",
    "renaming a column of `merge_map": "moves.alter",
    "a read of the past": "moments.travel",
    "a branch from a tag": "known.refused_by_java",
    "changes since a snapshot": "game.Game.earliest_of_java",
    "blank texts in `listagg`": "tables.Drawn.pool",
    "`deletion-vectors.merge-on-read`": "tables._changes",
    "folders of FLOAT": "values._DOUBLES",
    "casts of such numbers": "values._DOUBLES",
    "an overwrite of a partition whose": "moves.overwrite",
    "`nested_update` with a key": "tables.Drawn.pool",
    "texts of TIMESTAMP WITH LOCAL TIME ZONE": "moves._some_partition",
    "keys that may change partition, and changes of rows": "moves.overwrite",
}
"""Row of "Where Java 1.4.2 disagrees with itself", by its beginning → the move without it."""

REFUSALS = frozenset({"rows-wait", "row-delete", "row-update", "merge-on", "segment-mixed-formats"})
"""Kinds of ours that Java, which has no call for these steps, cannot answer otherwise."""


def hangs_on_compactions(options: Mapping[str, str]) -> bool:
    """Whether a table's rows depend on when it was compacted, as twins are not alike."""
    late_firsts = (
        "first_non_null_value" in options.values() and options["merge-engine"] == "partial-update"
    )
    return late_firsts or options.get("aggregation.remove-record-on-delete") == "true"


def refused_by_us(drawn: "Drawn", schema: TableSchema, error: PaimonError) -> str | None:
    """Return why we may refuse a step that Java would do, or None if we may not."""
    if "file-index." in str(error) and "names" in str(error):
        return "an index of a column that is not there"
    return error.kind if error.kind in REFUSALS else None


def refused_by_java(drawn: "Drawn", schema: TableSchema, move: str, trace: str) -> str | None:
    """Return why Java may fail where we do not, or None if it may not."""
    has_row_ids = drawn.kind in ("tracking", "evolution")
    if has_row_ids and "avro" in drawn.formats and "ArrayIndexOutOfBounds" in trace:
        return "row ids of Avro"
    if move.startswith("branches") and "NoSuchFileException" in trace:
        return "branch from a tag alone"
    if "MultiplePartitionPredicate" in trace and any(
        schema.column(name).type.root in BINARY_ROOTS for name in schema.partition_keys
    ):
        return "partitions of bytes"
    return None
