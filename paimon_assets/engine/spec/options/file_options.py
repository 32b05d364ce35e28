"""Options of files and rows: names, format and codec, statistics, indexes, new columns.

`spec.options.all_options` lists them, too.
Source: `org.apache.paimon.CoreOptions`, `org.apache.paimon.fileindex.FileIndexOptions`,
`org.apache.paimon.spark.SparkConnectorOptions`.
"""

from collections.abc import Mapping

from paimon_assets.engine.spec.options.option import (
    Option,
    Use,
    names,
    parse_folder,
    parse_folders,
    parse_part,
    size,
    word,
)


def parse_levels(text: str) -> Mapping[int, str]:
    """Parse a list of levels and values.

    >>> parse_levels("0:avro, 5:parquet")
    {0: 'avro', 5: 'parquet'}
    """
    pairs = [item.partition(":") for item in text.lower().split(",") if item.strip()]
    if not all(level.strip().isdecimal() and value.strip() for level, _, value in pairs):
        raise ValueError("expected levels and values such as '0:avro,5:parquet'")
    return {int(level): value.strip() for level, _, value in pairs}


def parse_positive(text: str) -> int:
    """Parse a whole number above zero."""
    number = int(text)
    if number < 1:
        raise ValueError("expected a number above zero")
    return number


def parse_share(text: str) -> float:
    """Parse a share between zero and one, both excluded."""
    share = float(text)
    if not 0 < share < 1:
        raise ValueError("expected a number between 0 and 1")
    return share


FILE_FORMAT = word("file.format", "parquet", "Format of data files.")
FILE_COMPRESSION = word("file.compression", "zstd", "Codec of data files.")
FILE_COMPRESSION_ZSTD_LEVEL = Option("file.compression.zstd-level", 1, "Level of the zstd codec.")
TARGET_FILE_SIZE = size(
    "target-file-size", 0, "Rolling size; 0 = 128 MB with, 256 MB without a key."
)
PARTITION_DEFAULT_NAME = Option(
    "partition.default-name",
    "__DEFAULT_PARTITION__",
    "Directory value of a null or blank partition value.",
    use=Use.BOTH,
)
PARTITION_LEGACY_NAME = Option(
    "partition.legacy-name",
    True,
    "Whether DATE partitions are written as day numbers.",
    use=Use.BOTH,
)
DATA_FILE_PREFIX = Option(
    "data-file.prefix", "data-", "Prefix of data file names.", parse=parse_part
)
DATA_FILE_DIRECTORY = Option(
    "data-file.path-directory",
    "",
    "Directory between the table and its partitions.",
    use=Use.BOTH,
    parse=parse_folder,
)
DATA_FILE_EXTERNAL_PATHS: Option[tuple[str, ...]] = Option(
    "data-file.external-paths",
    (),
    "Directories outside the table that its own data files may lie in.",
    use=Use.BOTH,
    parse=parse_folders,
)
INDEX_FILE_IN_DATA_DIRECTORY = Option(
    "index-file-in-data-file-dir",
    False,
    "Whether index files lie in the directory of their bucket.",
    use=Use.BOTH,
)
STATS_MODE = word("metadata.stats-mode", "truncate(16)", "none, counts, truncate(n) or full.")

COLUMN_STATS_MODE = word(
    "fields.<column>.stats-mode", "", "Statistics of one column; empty is those of the table."
)
ORC_LEGACY_LTZ = Option(
    "orc.timestamp-ltz.legacy.type",
    True,
    "Whether instants in ORC files are shifted by the zone of the process, as old Java did.",
)
FILE_FORMAT_PER_LEVEL: Option[Mapping[int, str]] = Option(
    "file.format.per.level",
    {},
    "Format of data files of single levels, such as 0:avro,5:parquet.",
    parse=parse_levels,
)
FILE_COMPRESSION_PER_LEVEL: Option[Mapping[int, str]] = Option(
    "file.compression.per.level",
    {},
    "Codec of data files of single levels, such as 0:lz4,5:zstd.",
    parse=parse_levels,
)
STATS_MODE_PER_LEVEL: Option[Mapping[int, str]] = Option(
    "metadata.stats-mode.per.level",
    {},
    "Statistics kept of data files of single levels, such as 0:none.",
    parse=parse_levels,
)
STATS_KEEP_FIRST_COLUMNS = Option(
    "metadata.stats-keep-first-n-columns",
    -1,
    "Columns, from the first, that have statistics; -1 = all.",
)
STATS_DENSE_STORE = Option(
    "metadata.stats-dense-store",
    False,
    "Leave columns without statistics out of them; Java does by default, but 0.9 misreads that.",
)
FILE_BLOCK_SIZE = size(
    "file.block-size",
    0,
    "Bytes of a Parquet row group or an ORC stripe; 0 = as the options of the format say.",
)
PARQUET_ENABLE_DICTIONARY = Option(
    "parquet.enable.dictionary",
    True,
    "Whether Parquet columns that repeat their values are stored as dictionaries.",
)
PARQUET_PAGE_SIZE = size("parquet.page.size", 1024 * 1024, "Bytes of a page of a Parquet column.")
PARQUET_BLOCK_SIZE = size(
    "parquet.block.size",
    128 * 1024 * 1024,
    "Most bytes of a Parquet row group, before encoding; it has at most 65,536 rows.",
)
ORC_STRIPE_SIZE = size("orc.stripe.size", 16 * 1024 * 1024, "Bytes of an ORC stripe.")
ORC_ROW_INDEX_STRIDE = Option(
    "orc.row.index.stride", 10_000, "Rows of one entry of an ORC row index.", parse=parse_positive
)
ORC_DICTIONARY_THRESHOLD = Option(
    "orc.dictionary.key.threshold",
    0.0,
    "ORC texts are stored as a dictionary if it has at most this share of their number.",
)
FILE_INDEX_READ_ENABLED = Option(
    "file-index.read.enabled", True, "Whether file indexes are looked at.", use=Use.READ
)
FILE_INDEX_IN_MANIFEST_THRESHOLD = size(
    "file-index.in-manifest-threshold",
    500,
    "Bytes of a file index that is kept in the manifest; larger ones are files of their own.",
)

WRITE_MERGE_SCHEMA = Option(
    "write.merge-schema",
    False,
    "Whether columns that rows have and the table lacks are added to it; those that rows lack are"
    " null.",
)
WRITE_FILL_MISSING = Option(
    "write.fill-missing",
    False,
    "Whether nullable columns that rows lack are null; ours, Paimon does not know it.",
)
WRITE_CHECK_TIMES = Option(
    "write.check-times",
    True,
    "Whether rows with a DATE or TIMESTAMP outside the years 0 to 9999, or a TIME outside a day,"
    " are refused; ours, Paimon does not know it.",
)
WRITE_SHOW_VALUES = Option(
    "write.show-values",
    True,
    "Whether errors of a write show the values that do not fit; ours, Paimon does not know it.",
)
WRITE_MERGE_SCHEMA_TYPE_WIDENING = Option(
    "write.merge-schema.type-widening",
    False,
    "Whether merging schemas also widens the types of columns.",
)
FILE_INDEX_COLUMNS = names(
    "file-index.<type>.columns", "Columns with an index: bloom-filter, bitmap."
)
BLOOM_ITEMS = Option(
    "file-index.bloom-filter.<column>.items",
    1_000_000,
    "Distinct values expected in a file.",
    parse=parse_positive,
)
BLOOM_FPP = Option(
    "file-index.bloom-filter.<column>.fpp",
    0.1,
    "Share of absent values taken for present ones.",
    parse=parse_share,
)
BITMAP_VERSION = Option("file-index.bitmap.<column>.version", 2, "Layout: 1 flat, 2 in blocks.")
BITMAP_BLOCK_SIZE = size(
    "file-index.bitmap.<column>.index-block-size", 16 * 1024, "Bytes of one block of keys."
)
