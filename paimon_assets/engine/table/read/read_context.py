"""The context of a read: what workers must know besides the splits."""

from paimon_assets.engine.contract.context import ReadContext
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.table_scan import TableScan
from paimon_assets.engine.spec.predicate.predicate import Predicate


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
