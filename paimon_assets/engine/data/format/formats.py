"""The formats of data files, and functions that open or create a file of any format."""

from importlib import import_module
from typing import Any

import pyarrow as pa

from paimon_assets.engine.data.format import base
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.options import all_options as opt

FORMATS: dict[str, str | base.FileFormat] = {
    **{each: each for each in ("parquet", "orc", "avro", "blob")},
    **dict.fromkeys(("csv", "json", "text"), "text"),
}
"""Format → the module of this package with it in its `FORMATS`, or the format itself."""
_UNCOMPRESSED = {"none", "uncompressed", ""}


def format_of(name: str) -> base.FileFormat | None:
    """Return a format, whose module is imported when it is used first."""
    known = FORMATS.get(name)
    if not isinstance(known, str):
        return known
    module = import_module(f"{base.__package__}.{known}")
    FORMATS.update({each.name: each for each in module.FORMATS})
    return format_of(name)


def is_written(file_format: str) -> bool:
    known = format_of(file_format)
    return known is not None and known.writer is not None


def open_reader(
    file_io: FileIO, path: str, *, file_format: str, **details: Any
) -> base.FormatReader:
    """Open a data file; `details` are those of `FileToRead`."""
    return reader_of(base.FileToRead(file_io=file_io, path=path, **details), file_format)


def reader_of(file: base.FileToRead, file_format: str) -> base.FormatReader:
    """Read a data file, which may be open."""
    reader_format = format_of(file_format)
    if reader_format is None or not reader_format.opens(file):
        way_out = (
            "Compact the table with an engine that reads the format, after setting"
            f" '{opt.FILE_FORMAT.key}' to one of those: that rewrites the rows"
        )
        raise _refusal(file_format, file.path, "read", way_out)
    return reader_format.reader(file)


def open_writer(
    file_io: FileIO,
    path: str,
    schema: pa.Schema,
    *,
    file_format: str = "parquet",
    compression: str = "zstd",
    options: opt.Options | None = None,
) -> base.FormatWriter:
    writer_format = format_of(file_format)
    if writer_format is None or writer_format.writer is None:
        keys = (opt.FILE_FORMAT.key, opt.FILE_FORMAT_PER_LEVEL.key, opt.CHANGELOG_FILE_FORMAT.key)
        way_out = f"Change the one of {', '.join(keys)} that names it"
        raise _refusal(file_format, path, "written", way_out)
    codec = "none" if compression in _UNCOMPRESSED else compression
    if codec not in writer_format.codecs:
        message = (
            f"Table option '{opt.FILE_COMPRESSION.key}' has the value '{compression}'; files of"
            f" format {file_format} can have one of {', '.join(sorted(writer_format.codecs))}."
        )
        raise InvalidInputError(message, kind="option-value", option=opt.FILE_COMPRESSION.key)
    settings = options or opt.Options({})
    return writer_format.writer(
        base.FileToWrite(file_io=file_io, path=path, schema=schema, codec=codec, options=settings)
    )


def _refusal(name: str, path: str, action: str, way_out: str) -> UnsupportedFeatureError:
    formats = ", ".join(filter(is_written, FORMATS))
    message = (
        f"Data file '{path}' has the format '{name or 'unknown'}', which is not {action} here;"
        f" {formats} are. {way_out}."
    )
    return UnsupportedFeatureError(message, kind="file-format", path=path, format=name)
