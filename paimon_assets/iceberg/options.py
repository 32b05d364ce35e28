"""Options of the Iceberg metadata that commits write beside Paimon's.

`spec.options.all_options` lists them, too.
Source: `org.apache.paimon.iceberg.IcebergOptions` of Paimon 2.1.
"""

from enum import StrEnum

from paimon_assets.engine.spec.options.option import Option, parse_enum, unset


class IcebergStorage(StrEnum):
    """Place of Iceberg metadata, and the catalog that gets it, too."""

    DISABLED = "disabled"
    TABLE_LOCATION = "table-location"
    HADOOP_CATALOG = "hadoop-catalog"
    HIVE_CATALOG = "hive-catalog"
    REST_CATALOG = "rest-catalog"


class IcebergLocation(StrEnum):
    """The folder of Iceberg metadata."""

    TABLE_LOCATION = "table-location"
    """`metadata` in the table's folder."""
    CATALOG_LOCATION = "catalog-location"
    """`iceberg/<database>/<table>/metadata` in the warehouse."""


ICEBERG_STORAGE = Option(
    "metadata.iceberg.storage",
    IcebergStorage.DISABLED,
    "Where every commit adds Iceberg metadata; hive-catalog and rest-catalog are not written.",
)
ICEBERG_STORAGE_LOCATION = unset(
    "metadata.iceberg.storage-location",
    parse_enum(IcebergLocation),
    "Folder of the metadata; the table's own for table-location, else the warehouse's iceberg.",
)
ICEBERG_FORMAT_VERSION = Option(
    "metadata.iceberg.format-version",
    2,
    "Version of Iceberg's format, 2 or 3; deletion vectors need 3.",
)
ICEBERG_COMPACT_MIN_FILES = Option(
    "metadata.iceberg.compaction.min.file-num",
    10,
    "Small Iceberg manifests that are joined once they sum up to manifest.target-file-size.",
)
ICEBERG_COMPACT_MAX_FILES = Option(
    "metadata.iceberg.compaction.max.file-num",
    50,
    "Small Iceberg manifests that are joined whatever their size.",
)
ICEBERG_DELETE_AFTER_COMMIT = Option(
    "metadata.iceberg.delete-after-commit.enabled",
    True,
    "Whether a commit deletes the oldest Iceberg metadata files.",
)
ICEBERG_PREVIOUS_VERSIONS_MAX = Option(
    "metadata.iceberg.previous-versions-max",
    10,
    "Older Iceberg metadata files to keep for readers that have opened them; Java's default is 0.",
)
ICEBERG_MANIFEST_COMPRESSION = Option(
    "metadata.iceberg.manifest-compression",
    "deflate",
    "Codec of Iceberg manifests: deflate, snappy, zstd or null. Java's default is snappy, which"
    " not every reader has.",
    parse=str.lower,
)
ICEBERG_LEGACY_MANIFESTS = Option(
    "metadata.iceberg.manifest-legacy-version",
    False,
    "Whether manifest lists name their counts as Iceberg 1.4 did, which Athena wants.",
)
