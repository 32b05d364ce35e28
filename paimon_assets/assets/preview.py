"""A table as its page shows it: some of its rows, and the files of a snapshot."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.spec.metadata.manifest import ManifestEntry
from paimon_assets.engine.spec.metadata.snapshot import Snapshot
from paimon_assets.engine.spec.words import plain_sample
from paimon_assets.engine.table.table import Table

PREVIEW = "paimon/preview"
_FILES_SHOWN = 20


def grid(lines: Iterable[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return lines, each column → value, as a table of Dagster's."""
    return dg.MetadataValue.table([dg.TableRecord(dict(line)) for line in lines])


def preview_metadata(table: Table, snapshot: Snapshot, rows: int) -> dict[str, Any]:
    """Return the first rows of a snapshot as text, nothing if there are none or 0 are asked for.

    A preview that cannot be read is left out: the snapshot is committed already.

    Cost:
        The manifests, and the first batches, merged where files overlap.
    """
    if rows <= 0:
        return {}
    records: list[Mapping[str, Any]] = []
    try:
        with table.new_read_builder().at_snapshot(snapshot.id).with_limit(rows).to_reader() as read:
            while len(records) < rows:
                records += read.read_next_batch().slice(0, rows - len(records)).to_pylist()
    except StopIteration:
        pass
    except (PaimonError, OSError, ValueError, OverflowError):  # values Python has no type for
        return {}
    lines = [{name: plain_sample(value) for name, value in record.items()} for record in records]
    return {PREVIEW: grid(lines)} if lines else {}


def snapshot_files_metadata(
    table: Table, snapshot: Snapshot, added: Sequence[ManifestEntry]
) -> dict[str, Any]:
    """Return where a snapshot lies, and its largest new data files; reads nothing."""
    metadata: dict[str, Any] = {
        "paimon/snapshot_file": dg.MetadataValue.path(table.state.snapshot_path(snapshot))
    }
    largest = sorted(added, key=lambda entry: -entry.file.file_size)[:_FILES_SHOWN]
    lines = [
        {
            "file": table.state.file_path(entry),
            "partition": _partition_text(table, entry),
            "bucket": entry.bucket,
            "level": entry.file.level,
            "rows": entry.file.row_count,
            "bytes": entry.file.file_size,
        }
        for entry in largest
    ]
    return {**metadata, "paimon/files": grid(lines)} if lines else metadata


def _partition_text(table: Table, entry: ManifestEntry) -> str:
    values = table.state.partition_text(entry.partition)
    return ", ".join(f"{name}={value}" for name, value in values.items())
