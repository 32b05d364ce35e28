"""What differs and is known to: every entry has its row in docs/supported.md."""

from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.schema.schema import TableSchema
from tests.interop.fuzz.tables import Drawn

_REFUSALS = frozenset({"rows-wait", "row-delete", "row-update", "segment-mixed-formats"})
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
    return None
