"""Deleting files of a table and nothing else: the one way by which names in metadata are deleted.

A path is owned if it is below one of the table's roots, as it is written and as links lead on a
local disk: a bucket that is a link belongs to the owner of its target.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from paimon_assets.engine.errors import FormatError
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.fileio.local import local_path
from paimon_assets.engine.spec.paths import straight_path
from paimon_assets.engine.spec.segments.segment import is_within, plain_path

logger = logging.getLogger(__name__)


def is_reached(file_io: FileIO, roots: Sequence[str], directory: str) -> bool:
    """Whether a directory below the roots is reached without a link. Costs on local disks only."""
    path = plain_path(directory)
    root = next((plain_path(root) for root in roots if is_within(path, plain_path(root))), None)
    below = None if root is None else path.removeprefix(root)
    if root is None or below is None or not _is_straight(below):
        message = (
            f"'{directory}' is in none of the directories that the table owns ("
            f"{', '.join(roots)}), so nothing there is deleted. Look at the writer of the "
            "table's metadata, or at its options."
        )
        raise FormatError(message, kind="path-outside", path=directory)
    if file_io.spec.scheme != "file":
        return True
    return os.path.realpath(local_path(path)) == os.path.realpath(local_path(root)) + below


def is_link(file_io: FileIO, path: str) -> bool:
    """Whether a path is a link; only local disks have such."""
    return file_io.spec.scheme == "file" and Path(local_path(path)).is_symlink()


def files_below(file_io: FileIO, directory: str) -> Iterator[str]:
    """Yield the paths inside a directory of all files below it, and of links to directories.

    Cost: a listing for each directory; on object stores one, 1,000 files a request.
    """
    list_directory, folders = file_io.list_tree(directory), [directory]
    while folders:
        for status in list_directory(folders.pop()):
            if status.is_directory and not is_link(file_io, status.path):
                folders.append(status.path)
            else:
                yield status.path.removeprefix(f"{directory}/")


def delete_owned(file_io: FileIO, roots: Sequence[str], paths: Iterable[str]) -> int:
    """Delete files of a table, fine if they do not exist; return how many may be deleted."""
    reached: dict[str, bool] = {}
    owned = []
    for path in paths:
        directory = path.rpartition("/")[0]
        if directory not in reached:
            reached[directory] = is_reached(file_io, roots, directory)
        if reached[directory]:
            owned.append(path)
        else:
            logger.warning("'%s' is left: a link leads to its directory", path)
    file_io.delete_files(owned)
    return len(owned)


def _is_straight(path: str) -> bool:
    try:
        straight_path(path)
    except ValueError:
        return False
    return True
