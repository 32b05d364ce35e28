"""Files of a directory, called by a prefix and a number or a name; and the names allowed."""

import re

from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.fileio.base import FileIO, FileStatus
from paimon_assets.engine.spec.paths import plain_name

HIGHEST = 2**63 - 1
_NUMBER = re.compile("0|[1-9][0-9]{0,18}")
_FORBIDDEN = "/\\$"


def read_or_none(file_io: FileIO, path: str) -> bytes | None:
    try:
        return file_io.read_bytes(path)
    except NotFoundError:
        return None


def prefixed_files(file_io: FileIO, directory: str, prefix: str) -> dict[str, FileStatus]:
    """Return the name behind the prefix → the entry, by name. Cost: one listing."""
    files = {
        status.name.removeprefix(prefix): status
        for status in file_io.list_directory(directory)
        if status.name.startswith(prefix)
    }
    return dict(sorted(files.items()))


def numbered_files(file_io: FileIO, directory: str, prefix: str) -> list[int]:
    """Return the numbers of the files with a prefix, ascending. Cost: one listing."""
    names = prefixed_files(file_io, directory, prefix)
    return sorted(number for name in names if (number := number_of(name)) is not None)


def number_of(name: str) -> int | None:
    """Return the number in a file's name; None if its text is no plain number.

    >>> number_of("7"), number_of("007"), number_of("9" * 20)
    (7, None, None)
    """
    number = int(name) if _NUMBER.fullmatch(name) else None
    return None if number is None or number > HIGHEST else number


def check_follows(number: int, noun: str, path: str) -> None:
    """Refuse a number beyond 64 bits, which readers do not parse."""
    if number >= HIGHEST:
        message = (
            f"The newest {noun} of table '{path}' has the highest number there is, {HIGHEST}, so "
            "none can follow. If no writer made that file, delete it; else copy the table."
        )
        raise InvalidInputError(message, kind="number-highest", path=path)


def check_file_name(noun: str, name: str) -> str:
    """Return a name that may become a part of a path."""
    if not name.strip() or name != name.strip():
        fault = "is blank, or has blanks around it"
    elif any(character in _FORBIDDEN or not character.isprintable() for character in name):
        fault = "holds a slash, a dollar sign or a control character"
    else:
        return name
    raise InvalidInputError(
        f"{name!r} is no name of a {noun}: it {fault}.", kind="name", **{noun: name}
    )


def known_file_name(noun: str, name: str) -> str:
    """Check the name of an existing item; other engines may allow more names than we do."""
    try:
        return plain_name(name)
    except ValueError as error:
        raise InvalidInputError(
            f"{name!r} is no name of a {noun}: {error}.", kind="name", **{noun: name}
        ) from error
