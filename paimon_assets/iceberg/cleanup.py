"""Iceberg metadata that nothing needs: orphans, and files left by dropped or renamed tables."""

from collections.abc import Iterator
from contextlib import contextmanager

from paimon_assets.engine.control.catalog.catalog import Catalog, Identifier
from paimon_assets.engine.control.catalog.filesystem_catalog import FilesystemCatalog
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileStatus
from paimon_assets.engine.fileio.owned_deletion import delete_owned
from paimon_assets.engine.spec.segments.segment import is_within
from paimon_assets.engine.spec.values import Value
from paimon_assets.iceberg import state
from paimon_assets.iceberg.manifest_files import Content, ManifestFiles
from paimon_assets.iceberg.options import ICEBERG_STORAGE
from paimon_assets.iceberg.table_schema import CATALOG_FOLDER, IcebergTable, metadata_directory

_UNIQUE_ENDINGS = (".avro", ".puffin")
_ENDINGS = (*_UNIQUE_ENDINGS, ".metadata.json")


def _own_metadata(store: FileStore, created_ms: int) -> state.IcebergMetadata | None:
    """Return the newest metadata, if this engine wrote it for this very table."""
    found = state.newest_metadata(store)
    properties = {} if found is None else found.document.get("properties") or {}
    is_own = state.WRITER in properties and properties.get(state.CREATED) == str(created_ms)
    return found if is_own else None


class _Leftover(Value):
    """Metadata that is its table's own, and does not go with it."""

    store: FileStore
    created_ms: int

    @staticmethod
    def of(catalog: Catalog, table: Identifier) -> "_Leftover | None":
        try:
            store = FileStore.load(catalog, table)
            if ICEBERG_STORAGE.key not in store.schema.options:
                return None
            created_ms = store.created_ms
            is_own = _own_metadata(store, created_ms) is not None
        except PaimonError:  # no table, or an unreadable one
            return None
        return _Leftover(store=store, created_ms=created_ms) if is_own else None

    def delete(self) -> None:
        """Delete the files that this engine writes; those of another table of the name stay."""
        directory = metadata_directory(self.store)
        if is_within(directory, self.store.table_path):
            return
        if _own_metadata(self.store, self.created_ms) is None:
            return
        file_io = self.store.file_io
        paths = [status.path for status in file_io.list_directory(directory)
                 if status.name == state.HINT_NAME or status.name.endswith(_ENDINGS)]  # fmt: skip
        delete_owned(file_io, (directory,), paths)
        if file_io.delete_empty_directory(directory):
            file_io.delete_empty_directory(directory.rpartition("/")[0])


@contextmanager
def forget(catalog: Catalog, *tables: Identifier) -> Iterator[bool]:
    """Delete the metadata of tables that the block drops or renames; yield whether they have some.

    Files in a table's folder are deleted with it.
    """
    found = [_Leftover.of(catalog, table) for table in tables]
    yield any(each is not None for each in found)
    for each in found:
        if each is not None:
            each.delete()


@contextmanager
def forgotten_database(catalog: Catalog, database: str) -> Iterator[None]:
    """Delete the metadata of the tables of a database that the block drops. Cost: a listing.

    That of a server's is the server's affair.
    """
    if not isinstance(catalog, FilesystemCatalog):
        yield
        return
    folder = f"{catalog.warehouse}/{CATALOG_FOLDER}/{database}"
    names = [each.name for each in catalog.file_io.list_directory(folder) if each.is_directory]
    with forget(catalog, *(Identifier(database, name) for name in names)):
        yield
    if names:
        catalog.file_io.delete_empty_directory(folder)


def _shown_metadata(store: FileStore) -> state.IcebergMetadata | None:
    return _own_metadata(store, store.created_ms) if state.writes_iceberg(store) else None


def stored_files(store: FileStore) -> Iterator[FileStatus]:
    """Yield the files in the folder of the metadata, which holds nothing else.

    Documents are left out: after a rollback another one gets the same name.
    """
    if _shown_metadata(store) is not None:
        for status in store.file_io.list_directory(metadata_directory(store)):
            if status.name.endswith(_UNIQUE_ENDINGS):
                yield status


def needed_names(store: FileStore, *, with_log: bool = True) -> Iterator[str]:
    """Yield the names of files that readers of the newest document, and of those it logs, need."""
    found = _shown_metadata(store)
    if found is None:
        return
    document = found.document
    logged = [each["metadata-file"] for each in document["metadata-log"] if with_log]
    yield from (_name(path) for path in (state.HINT_NAME, found.location, *logged))
    files = ManifestFiles(table=IcebergTable(store=store))
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


def delete_earlier(store: FileStore) -> None:
    """Delete all but the newest document with its files; paths in its log lead nowhere then."""
    needed = set(needed_names(store, with_log=False))
    paths = [each.path for each in stored_files(store) if each.name not in needed]
    delete_owned(store.file_io, (metadata_directory(store),), paths)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
