"""Which format a data file has, and how to open it for reading or writing."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from paimon_assets.engine.data.format.avro import AVRO_CODECS, AvroReader, AvroWriter
from paimon_assets.engine.data.format.base import FormatReader, FormatWriter, unsupported_format
from paimon_assets.engine.data.format.blob import BlobReader
from paimon_assets.engine.data.format.csv import CsvReader
from paimon_assets.engine.data.format.json import JsonReader
from paimon_assets.engine.data.format.orc import ORC_CODECS, OrcReader, OrcWriter
from paimon_assets.engine.data.format.parquet import ParquetReader, ParquetWriter
from paimon_assets.engine.data.format.text import TextReader
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.options.all_options import (
    FILE_COMPRESSION,
    FILE_COMPRESSION_ZSTD_LEVEL,
    Options,
)
from paimon_assets.engine.spec.types.data_types import DataField

_CODECS: Mapping[str, frozenset[str]] = {
    "parquet": frozenset({"zstd", "snappy", "gzip", "lz4", "brotli", "none"}),
    "orc": ORC_CODECS,
    "avro": AVRO_CODECS,
}
"""Format that is written → codecs it knows."""
_UNCOMPRESSED = {"none", "uncompressed", ""}


def open_reader(
    file_io: FileIO,
    path: str,
    *,
    file_format: str,
    file_bytes: int | None = None,
    columns: Sequence[str] | None = None,
    declared: Sequence[DataField] | None = None,
) -> FormatReader:
    """Open a data file.

    Args:
        file_io: The storage.
        path: Full path.
        file_format: The format's name, usually `DataFileMeta.file_format`.
        file_bytes: The size the table has noted; another size is an error.
        columns: Names of the file's columns, for formats that do not store them.
        declared: The table's columns, for text formats of foreign files: these are read by the
            rules of segments, which are not those of tables that are kept as text.

    Raises:
        NotFoundError: There is no such file.
        FormatError: The file is damaged or of another size.
        UnsupportedFeatureError: The format is not read.
    """
    match file_format:
        case "parquet":
            return ParquetReader(file_io, path, file_bytes=file_bytes)
        case "orc":
            return OrcReader(file_io, path, file_bytes=file_bytes)
        case "avro":
            return AvroReader(file_io, path, file_bytes=file_bytes)
        case "blob" if columns is not None and len(columns) == 1:
            return BlobReader(file_io, path, columns[0], file_bytes=file_bytes)
        case "csv" if declared is not None:
            return CsvReader(file_io, path, declared, file_bytes=file_bytes)
        case "json" if declared is not None:
            return JsonReader(file_io, path, declared, file_bytes=file_bytes)
        case "text" if declared is not None:
            return TextReader(file_io, path, file_bytes=file_bytes)
        case _:
            raise unsupported_format(file_format, path)


def open_writer(
    file_io: FileIO,
    path: str,
    schema: pa.Schema,
    *,
    file_format: str = "parquet",
    compression: str = "zstd",
    options: Options | None = None,
) -> FormatWriter:
    """Create a data file.

    Args:
        file_io: The storage.
        path: Full path of a file that does not exist.
        schema: What will be written; field ids ride in the fields' `PARQUET:field_id` metadata.
        file_format: `file.format` of the table.
        compression: `file.compression` of the table.
        options: The options of the table: level of zstd, sizes of pages and stripes, dictionaries.

    Raises:
        InvalidInputError: No such codec.
        UnsupportedFeatureError: The format is not written.
    """
    if file_format not in _CODECS:
        raise unsupported_format(file_format, path)
    codec = "none" if compression in _UNCOMPRESSED else compression
    if codec not in _CODECS[file_format]:
        raise InvalidInputError(
            f"Table option '{FILE_COMPRESSION.key}' has the value '{compression}'; files of format"
            f" {file_format} take one of {', '.join(sorted(_CODECS[file_format]))}.",
            kind="option-value",
            details={"option": FILE_COMPRESSION.key},
        )
    settings = options or Options({})
    match file_format:
        case "orc":
            return OrcWriter(file_io, path, schema, compression=codec, options=settings)
        case "avro":
            level = settings.get(FILE_COMPRESSION_ZSTD_LEVEL)
            return AvroWriter(file_io, path, schema, compression=codec, zstd_level=level)
        case _:
            return ParquetWriter(file_io, path, schema, compression=codec, options=settings)
