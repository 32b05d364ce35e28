"""Deleting files of a table and nothing else: the one way by which names in metadata are deleted.

A path is owned if it lies below one of the table's roots, as it is written and as links lead on a
local disk: a bucket that is a link belongs to whoever owns what it leads to.
"""

import logging
import os
from collections.abc import Iterable, Sequence

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
        raise FormatError(
            f"'{directory}' lies in none of the directories that the table owns ("
            f"{', '.join(roots)}), so nothing there is deleted. Look at who wrote the table's "
            "metadata, or its options.",
            kind="path-outside",
            details={"path": directory},
        )
    if file_io.spec.scheme != "file":
        return True
    return os.path.realpath(local_path(path)) == os.path.realpath(local_path(root)) + below


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
