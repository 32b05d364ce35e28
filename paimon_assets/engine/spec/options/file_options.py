"""Options of files and rows: format and codec of each level, statistics, indexes, new columns.

`spec.options.all_options` lists them with all others.
Source: `org.apache.paimon.CoreOptions`, `org.apache.paimon.fileindex.FileIndexOptions`,
`org.apache.paimon.spark.SparkConnectorOptions`.
"""

from collections.abc import Mapping

from paimon_assets.engine.spec.options.option import Option, parse_bool, parse_memory, parse_names


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


FILE_FORMAT_PER_LEVEL: Option[Mapping[int, str]] = Option(
    "file.format.per.level",
    parse_levels,
    {},
    "Format of data files of single levels, such as 0:avro,5:parquet.",
)
FILE_COMPRESSION_PER_LEVEL: Option[Mapping[int, str]] = Option(
    "file.compression.per.level",
    parse_levels,
    {},
    "Codec of data files of single levels, such as 0:lz4,5:zstd.",
)
STATS_MODE_PER_LEVEL: Option[Mapping[int, str]] = Option(
    "metadata.stats-mode.per.level",
    parse_levels,
    {},
    "Statistics kept of data files of single levels, such as 0:none.",
)
STATS_KEEP_FIRST_COLUMNS = Option(
    "metadata.stats-keep-first-n-columns",
    int,
    -1,
    "Columns, from the first, that have statistics; -1 = all.",
)
STATS_DENSE_STORE = Option(
    "metadata.stats-dense-store",
    parse_bool,
    False,
    "Leave columns without statistics out of them; Java does by default, but 0.9 misreads that.",
)
FILE_BLOCK_SIZE = Option(
    "file.block-size",
    parse_memory,
    0,
    "Bytes of a Parquet row group or an ORC stripe; 0 = as the options of the format say.",
)
PARQUET_ENABLE_DICTIONARY = Option(
    "parquet.enable.dictionary",
    parse_bool,
    True,
    "Whether Parquet columns that repeat their values are stored as dictionaries.",
)
PARQUET_PAGE_SIZE = Option(
    "parquet.page.size", parse_memory, 1024 * 1024, "Bytes of a page of a Parquet column."
)
PARQUET_BLOCK_SIZE = Option(
    "parquet.block.size",
    parse_memory,
    128 * 1024 * 1024,
    "Most bytes of a Parquet row group, before encoding; it has at most 131,072 rows.",
)
ORC_STRIPE_SIZE = Option(
    "orc.stripe.size", parse_memory, 16 * 1024 * 1024, "Bytes of an ORC stripe."
)
ORC_ROW_INDEX_STRIDE = Option(
    "orc.row.index.stride", parse_positive, 10_000, "Rows of one entry of an ORC row index."
)
ORC_DICTIONARY_THRESHOLD = Option(
    "orc.dictionary.key.threshold",
    float,
    0.0,
    "ORC texts are stored as a dictionary if it has at most this share of their number.",
)
FILE_INDEX_READ_ENABLED = Option(
    "file-index.read.enabled", parse_bool, True, "Whether file indexes are looked at."
)
FILE_INDEX_IN_MANIFEST_THRESHOLD = Option(
    "file-index.in-manifest-threshold",
    parse_memory,
    500,
    "Bytes of a file index that is kept in the manifest; larger ones are files of their own.",
)

WRITE_MERGE_SCHEMA = Option(
    "write.merge-schema",
    parse_bool,
    False,
    "Whether columns that rows have and the table lacks are added to it; those that rows lack are"
    " null.",
)
WRITE_MERGE_SCHEMA_TYPE_WIDENING = Option(
    "write.merge-schema.type-widening",
    parse_bool,
    False,
    "Whether merging schemas also widens the types of columns.",
)


def file_index_columns(index_type: str) -> Option[tuple[str, ...]]:
    """`file-index.<type>.columns`: the columns that have an index of this type."""
    return Option(f"file-index.{index_type}.columns", parse_names, (), "Columns to index.")


def bloom_items(column: str, default: int) -> Option[int]:
    """`file-index.bloom-filter.<column>.items`: distinct values expected in a file."""
    key = f"file-index.bloom-filter.{column}.items"
    return Option(key, parse_positive, default, "Distinct values expected in a file.")


def bloom_fpp(column: str, default: float) -> Option[float]:
    """`file-index.bloom-filter.<column>.fpp`: share of absent values taken for present ones."""
    key = f"file-index.bloom-filter.{column}.fpp"
    return Option(key, parse_share, default, "Share of absent values taken for present ones.")


def bitmap_version(column: str, default: int) -> Option[int]:
    """`file-index.bitmap.<column>.version`: 1 flat, 2 in blocks."""
    return Option(f"file-index.bitmap.{column}.version", int, default, "Layout: 1 or 2.")


def bitmap_block_size(column: str, default: int) -> Option[int]:
    """`file-index.bitmap.<column>.index-block-size`: bytes of one block of keys."""
    key = f"file-index.bitmap.{column}.index-block-size"
    return Option(key, parse_memory, default, "Bytes of one block of keys.")
