"""Giving up a write: delete the files its messages name, and nothing else.

Once a publish began, only a definite failure deletes: after a `CommitUnknownError`, and after an
interrupt, a snapshot may hold the files.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.scan.split_generator import index_path
from paimon_assets.engine.errors import CommitUnknownError, PaimonError, StorageError
from paimon_assets.engine.spec.metadata.data_file import DataFileMeta
from paimon_assets.engine.spec.metadata.manifest import FileKind, IndexManifestEntry

logger = logging.getLogger(__name__)


@contextmanager
def deleted_on_definite_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Delete the files prepared for a commit, if it definitely failed."""
    try:
        yield
    except CommitUnknownError:
        raise
    except PaimonError:
        undo()
        raise


def abort(store: FileStore, messages: Iterable[CommitMessage]) -> int:
    """Delete the files of a write that was not committed; external and moved files stay."""
    return _delete(store, made_paths(store, messages))


def made_paths(store: FileStore, messages: Iterable[CommitMessage]) -> Iterator[str]:
    """Yield the paths of the files a write made, external ones left out."""
    return (path for message in messages for path in _made_by(store, message))


def discard(store: FileStore, messages: Iterable[CommitMessage], operation: str) -> None:
    """Delete files that will never be committed, as far as the storage allows."""
    try:
        abort(store, messages)
    except StorageError as failure:
        logger.warning("files of %s of %s stay as orphans: %s", operation, store.label, failure)


def delete_changelogs(store: FileStore, messages: Iterable[CommitMessage]) -> int:
    """Delete the changelog files of a write that was committed without them, as overwrites are."""
    paths = (
        path
        for message in messages
        for file in (
            *message.data_increment.changelog_files,
            *message.compact_increment.changelog_files,
        )
        for path in _paths_of(store, message, file)
    )
    return _delete(store, paths)


def _delete(store: FileStore, paths: Iterable[str]) -> int:
    from paimon_assets.engine.fileio.owned_deletion import delete_owned

    return delete_owned(store.file_io, store.roots, paths)


def _made_by(store: FileStore, message: CommitMessage) -> Iterator[str]:
    data, compact = message.data_increment, message.compact_increment
    before = {file.file_name for file in (*data.deleted_files, *compact.compact_before)}
    for file in (
        *data.new_files,
        *data.changelog_files,
        *compact.compact_after,
        *compact.changelog_files,
    ):
        if file.file_name not in before:
            yield from _paths_of(store, message, file)
    for index in (*data.new_index_files, *compact.new_index_files):
        if index.external_path is None:
            entry = IndexManifestEntry(
                kind=FileKind.ADD, partition=message.partition, bucket=message.bucket, file=index
            )
            yield index_path(store, entry)


def _paths_of(store: FileStore, message: CommitMessage, file: DataFileMeta) -> Iterator[str]:
    if file.external_path is not None:
        return
    directory = store.bucket_path(message.partition, message.bucket)
    for name in (file.file_name, *file.extra_files):
        yield f"{directory}/{name}"
