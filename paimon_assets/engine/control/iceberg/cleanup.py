"""Files of Iceberg metadata that nothing needs, and the metadata of a table that was dropped."""

from collections.abc import Iterator

from paimon_assets.engine.control.catalog.catalog import Catalog, Identifier
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.iceberg.document import CREATED, WRITER
from paimon_assets.engine.control.iceberg.manifest_files import Content, ManifestFiles
from paimon_assets.engine.control.iceberg.state import (
    HINT_NAME,
    IcebergMetadata,
    newest_metadata,
    writes_iceberg,
)
from paimon_assets.engine.control.iceberg.table_schema import IcebergTable, metadata_directory
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileStatus


def own_metadata(store: FileStore) -> IcebergMetadata | None:
    """Return the newest metadata, if this engine wrote it for this very table."""
    if not writes_iceberg(store):
        return None
    found = newest_metadata(store)
    properties = {} if found is None else found.document.get("properties") or {}
    is_own = WRITER in properties and properties.get(CREATED) == str(store.created_ms)
    return found if is_own else None


def with_metadata(catalog: Catalog, table: Identifier) -> FileStore | None:
    """Return a table that has metadata of its own; None if it has none, or cannot be opened."""
    try:
        store = FileStore.load(catalog, table)
        return store if own_metadata(store) is not None else None
    except PaimonError:
        return None


def stored_files(store: FileStore) -> Iterator[FileStatus]:
    """Yield the files in the folder of the metadata, which holds nothing else."""
    if own_metadata(store) is not None:
        for status in store.file_io.list_directory(metadata_directory(store)):
            if status.name.endswith((".avro", ".metadata.json", ".puffin")):
                yield status


def needed_names(store: FileStore) -> Iterator[str]:
    """Yield the names of what readers of the newest document, and of those it logs, need."""
    found = own_metadata(store)
    if found is None:
        return
    document = found.document
    logged = [each["metadata-file"] for each in document["metadata-log"]]
    yield from (_name(path) for path in (HINT_NAME, found.location, *logged))
    files = ManifestFiles(file_io=store.file_io, table=IcebergTable(store=store))
    seen = set[str]()
    for snapshot in document["snapshots"]:
        yield _name(snapshot["manifest-list"])
        for manifest in files.read_list(snapshot["manifest-list"]):
            if (
                manifest["content"] == Content.DELETES
                and _name(manifest["manifest_path"]) not in seen
            ):
                entries = files.read(manifest)
                yield from {_name(entry["data_file"]["file_path"]) for entry in entries}
            seen.add(_name(manifest["manifest_path"]))
    yield from seen


def forget(store: FileStore) -> None:
    """Delete the metadata of a table that was dropped or renamed, if it lies outside its folder."""
    directory = metadata_directory(store)
    if directory.startswith(f"{store.table_path}/"):
        return
    store.file_io.delete_directory(directory)
    store.file_io.delete_empty_directory(directory.rpartition("/")[0])


def _name(path: str) -> str:
    return path.rpartition("/")[2]
