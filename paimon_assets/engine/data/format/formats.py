"""Which format a data file has, and how to open it for reading or writing."""

import pyarrow as pa

from paimon_assets.engine.data.format.base import FormatReader, FormatWriter, unsupported_format
from paimon_assets.engine.data.format.orc import OrcReader
from paimon_assets.engine.data.format.parquet import ParquetReader, ParquetWriter
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO

_CODECS = {"zstd", "snappy", "gzip", "lz4", "brotli"}
_UNCOMPRESSED = {"none", "uncompressed", ""}


def open_reader(
    file_io: FileIO, path: str, *, file_format: str, file_bytes: int | None = None
) -> FormatReader:
    """Open a data file.

    Args:
        file_io: The storage.
        path: Full path.
        file_format: The format's name, usually `DataFileMeta.file_format`.
        file_bytes: The size the table has noted; another size is an error.

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
        case _:
            raise unsupported_format(file_format, path)


def open_writer(
    file_io: FileIO,
    path: str,
    schema: pa.Schema,
    *,
    file_format: str = "parquet",
    compression: str = "zstd",
    zstd_level: int = 1,
) -> FormatWriter:
    """Create a data file.

    Args:
        file_io: The storage.
        path: Full path of a file that does not exist.
        schema: What will be written; field ids ride in the fields' `PARQUET:field_id` metadata.
        file_format: `file.format` of the table.
        compression: `file.compression` of the table.
        zstd_level: `file.compression.zstd-level` of the table.

    Raises:
        InvalidInputError: No such codec.
        UnsupportedFeatureError: The format is not written.
    """
    if file_format != "parquet":
        raise unsupported_format(file_format, path)
    codec = "none" if compression in _UNCOMPRESSED else compression
    if codec not in _CODECS and codec != "none":
        raise InvalidInputError(
            f"Table option 'file.compression' has the value '{compression}'; expected one of"
            f" {', '.join(sorted(_CODECS))} or none.",
            kind="option-value",
            details={"option": "file.compression"},
        )
    return ParquetWriter(
        file_io,
        path,
        schema,
        compression=codec,
        compression_level=zstd_level if codec == "zstd" else None,
    )
