"""What differs and is known to: every entry has its row in docs/supported.md."""

from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.data_types import BINARY_ROOTS
from tests.interop.fuzz.tables import Drawn

_REFUSALS = frozenset(
    {"rows-wait", "row-delete", "row-update", "merge-on", "segment-mixed-formats"}
)
"""Kinds of ours that Java, which has no interface for these steps, cannot answer otherwise."""


def refused_by_us(drawn: Drawn, schema: TableSchema, error: PaimonError) -> str | None:
    """Return why we may refuse a step that Java would do, or None if we may not."""
    return error.kind if error.kind in _REFUSALS else None


def refused_by_java(drawn: Drawn, schema: TableSchema, deed: str, trace: str) -> str | None:
    """Return why Java may fail where we do not, or None if it may not."""
    if deed.startswith("compacts") and drawn.kind == "tracking" and drawn.format == "avro":
        return "row ids of Avro" if "ArrayIndexOutOfBounds" in trace else None
    if deed.startswith("branches") and "NoSuchFileException" in trace:
        return "branch from a tag alone"
    if "MultiplePartitionPredicate" in trace and any(
        schema.column(name).type.root in BINARY_ROOTS for name in schema.partition_keys
    ):
        return "partitions of bytes"
    return None
