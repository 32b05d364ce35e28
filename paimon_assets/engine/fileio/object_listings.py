"""Objects of a store as the files and directories that their names make."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from paimon_assets.engine.fileio.base import FileStatus

MARKER = ".directory"
"""The name of an object that stands for a directory."""


def root_of(path: str) -> str:
    """Return the scheme and the bucket of a path."""
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def name_of(key: str) -> str:
    return key.rpartition("/")[2]


def directory_status(path: str) -> FileStatus:
    return FileStatus(path=path, size=0, is_directory=True, modified_ms=0)


def directories_of(
    base: str, listed: Iterable[dict[str, Any]]
) -> Callable[[str], list[FileStatus]]:
    """Return what lists the directories below a path, given the objects there."""
    directories: dict[str, dict[str, FileStatus]] = {}
    for each in listed:
        directory, *_ = each["path"].rpartition("/")
        status = status_of(f"{root_of(base)}/{directory}", each, directory)
        directories.setdefault(status.path.rpartition("/")[0], {})[status.path] = status
    for directory in list(directories):
        child = directory
        while child.startswith(f"{base}/"):
            parent = child.rpartition("/")[0]
            directories.setdefault(parent, {})[child] = directory_status(child)
            child = parent

    def shown(directory: str) -> list[FileStatus]:
        statuses = directories.get(directory.rstrip("/"), {})
        return [each for _, each in sorted(statuses.items()) if each.name != MARKER]

    return shown


def status_of(base: str, listed: dict[str, Any], directory: str) -> FileStatus:
    is_itself = listed["path"] == directory
    return FileStatus(
        path=base if is_itself else f"{base}/{name_of(listed['path'])}",
        size=listed["size"],
        is_directory=False,
        modified_ms=int(listed["last_modified"].timestamp() * 1000),
        tag=tag_of(listed),
    )


def tag_of(meta: Mapping[str, Any]) -> str:
    """Return an ETag without quotes, which Azure's listings leave out."""
    return str(meta["e_tag"] or "").removeprefix("W/").strip('"')
