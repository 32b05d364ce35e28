"""Options of the kind of a table: its file layout and its special readers.

Source: `org.apache.paimon.CoreOptions`.
"""

from paimon_assets.engine.spec.options.option import Option, Use, names, unset, word


def _key_index(kind: str) -> Option[tuple[str, ...]]:
    return Option(f"pk-{kind}.index.columns", (), f"Columns with a {kind} index.", use=Use.WRITE)


TABLE_TYPE = word("type", "table", "Kind of the table, such as format-table.", use=Use.BOTH)
ROW_TRACKING_ENABLED = Option("row-tracking.enabled", False, "Rows carry row ids.", use=Use.BOTH)
DATA_EVOLUTION_ENABLED = Option(
    "data-evolution.enabled", False, "Files may hold some of the columns each.", use=Use.BOTH
)
DELETION_VECTORS_ENABLED = Option(
    "deletion-vectors.enabled",
    False,
    "Mark deleted rows instead of rewriting files; of keyed tables, new rows are seen once"
    " compacted.",
    use=Use.BOTH,
)
DELETION_VECTORS_MERGE_ON_READ = Option(
    "deletion-vectors.merge-on-read",
    False,
    "Whether batch reads of tables with deletion vectors see level-0 files too.",
    use=Use.READ,
)
DELETION_VECTORS_MODIFIABLE = Option(
    "deletion-vectors.modifiable", False, "Whether deletion vectors may be switched."
)
PK_CLUSTERING_OVERRIDE = Option(
    "pk-clustering-override", False, "Sort files by other columns than the key.", use=Use.BOTH
)
PRIMARY_KEY_NULLABLE = Option(
    "primary-key.nullable",
    False,
    "Key columns may hold null, a value equal to itself and below all other values.",
    use=Use.BOTH,
)
PK_VECTOR_INDEX = _key_index("vector")
PK_FULL_TEXT_INDEX = _key_index("full-text")
PK_BTREE_INDEX = _key_index("btree")
PK_BITMAP_INDEX = _key_index("bitmap")
PK_MULTIVALUE_INDEX = _key_index("multivalue")
PRIMARY_KEY_INDEXES = (
    PK_VECTOR_INDEX,
    PK_FULL_TEXT_INDEX,
    PK_BTREE_INDEX,
    PK_BITMAP_INDEX,
    PK_MULTIVALUE_INDEX,
)
"""Searches leave out data files without index entries; none are written here."""
SCAN_BUCKET = unset("scan.bucket", int, "Read one bucket only; refused.", use=Use.READ)
CHAIN_TABLE_ENABLED = Option(
    "chain-table.enabled", False, "Complete partitions from other branches.", use=Use.READ
)
BLOB_VIEW_FIELD = names(
    "blob-view-field", "Columns whose values lie in other tables.", use=Use.READ
)
QUERY_AUTH_ENABLED = Option(
    "query-auth.enabled", False, "The catalog decides which rows a reader sees.", use=Use.READ
)
MANIFEST_FORMAT = word(
    "manifest.format", "avro", "Format of manifests; only avro is written.", use=Use.WRITE
)
