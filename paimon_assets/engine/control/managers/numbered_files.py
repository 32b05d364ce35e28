"""Files of a directory that are called by a prefix and a number, or a prefix and a name."""

from paimon_assets.engine.fileio.base import FileIO, FileStatus


def prefixed_files(file_io: FileIO, directory: str, prefix: str) -> dict[str, FileStatus]:
    """Return what follows the prefix → the entry, by name; empty if there is no directory.

    Cost:
        One listing.
    """
    found = {
        status.name.removeprefix(prefix): status
        for status in file_io.list_directory(directory)
        if status.name.startswith(prefix)
    }
    return dict(sorted(found.items()))


def numbered_files(file_io: FileIO, directory: str, prefix: str) -> list[int]:
    """Return the numbers of the files called by a prefix and a number, ascending.

    Cost:
        One listing.
    """
    names = prefixed_files(file_io, directory, prefix)
    return sorted(int(name) for name in names if name.isdecimal())
