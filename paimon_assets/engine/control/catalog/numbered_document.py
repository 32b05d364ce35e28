"""NumberedDocument: a JSON document that is changed by publishing its next number.

    <directory>/<name>-1.json, <name>-2.json, …

The highest number counts. Of two changes at once one loses, and changes the result of the other: so
several processes or servers change one document without loss. A few old numbers stay for readers
that listed before. Deleted names are free again for a writer that slept through many changes, so
after its publish it looks whether the highest number remembers its change.
"""

import json
import logging
from collections.abc import Callable
from typing import NamedTuple, cast
from uuid import uuid4

from paimon_assets.engine.codec.json.metadata_json import json_bytes
from paimon_assets.engine.control.managers.numbered_files import (
    number_of,
    prefixed_files,
    read_or_none,
)
from paimon_assets.engine.control.publishing import published
from paimon_assets.engine.errors import (
    CommitConflictError,
    CommitUnknownError,
    FormatError,
    StorageError,
)
from paimon_assets.engine.fileio.base import FileIO
from paimon_assets.engine.spec.types.type_text import Json

logger = logging.getLogger(__name__)

Members = dict[str, Json]
_MOST_TRIES = 100
"""The tries of one change while others change the document too; who loses, lost to one who won."""
_KEPT = 8
_MEMBERS = "members"
_HISTORY = "changes"
"""Names of the last changes, the newest first; so the bytes of each are its author's own."""
_REMEMBERED = 256
"""A writer that stands still while so many others pass cannot be told whether it came in time."""


class NumberedDocument:
    """One document, with the storage and the path by which it is changed."""

    def __init__(self, file_io: FileIO, directory: str, name: str) -> None:
        self._file_io = file_io
        self._directory = directory
        self._prefix = f"{name}-"

    def read(self) -> Members:
        """Return the newest members; none if nothing was published yet.

        Cost: one listing and one read.
        """
        return self._newest().members

    def change(self, changed: Callable[[Members], Members]) -> Members:
        """Publish the result of a function of the newest members, and return it.

        The function is called again if somebody else was faster; what it raises ends the change.
        Nothing is published if it changes nothing.
        """
        for _ in range(_MOST_TRIES):
            newest = self._newest()
            after = changed(dict(newest.members))
            if after == newest.members:
                return after
            own = uuid4().hex[:16]
            file = {_HISTORY: [own, *newest.history][:_REMEMBERED], _MEMBERS: after}
            data = json_bytes(cast("Members", file))
            number = newest.number + 1
            if published(self._file_io, self._path(number), data) and self._stands(number, own):
                return after
        raise CommitConflictError(
            f"'{self._directory}/{self._prefix}*.json' was changed by others {_MOST_TRIES} times "
            "meanwhile; look at it and change it again.",
            kind="document-conflict",
            details={"path": self._directory},
        )

    def _newest(self) -> "_Newest":
        for _ in range(_MOST_TRIES):
            names = prefixed_files(self._file_io, self._directory, self._prefix)
            ours = (name.removesuffix(".json") for name in names if name.endswith(".json"))
            numbers = sorted(number for name in ours if (number := number_of(name)) is not None)
            if not numbers:
                return _Newest([], {}, [])
            path = self._path(numbers[-1])
            data = read_or_none(self._file_io, path)
            if data is not None:  # else it was deleted, because there are many newer ones
                return _Newest(numbers, *_parse(data, path))
        raise self._ghosts()

    def _stands(self, number: int, change: str) -> bool:
        """Whether a published number counts; it is taken back if it came too late."""
        try:
            tries = (self._newest() for _ in range(_MOST_TRIES))
            # A listing without the number is no answer.
            newest = next((each for each in tries if each.number >= number), None)
            if newest is None:
                raise self._ghosts()
            if change not in newest.history:
                if newest.number - number >= _REMEMBERED:
                    raise _unknown(self._path(number))
                self._file_io.delete_file(self._path(number))
                return False
        except StorageError as error:
            raise _unknown(self._path(number)) from error
        try:
            for old in newest.numbers[:-_KEPT]:
                self._file_io.delete_file(self._path(old))
        except StorageError:
            logger.warning("'%s': old numbers are left", self._directory, exc_info=True)
        return True

    def _ghosts(self) -> StorageError:
        return StorageError(
            f"Storage lists files '{self._prefix}*.json' of '{self._directory}' that it does not"
            " find.",
            kind="document-listing",
            details={"path": self._directory},
        )

    def _path(self, number: int) -> str:
        return f"{self._directory}/{self._prefix}{number}.json"


class _Newest(NamedTuple):
    numbers: list[int]
    """All that were listed, ascending; none if nothing was published yet."""
    members: Members
    history: list[Json]

    @property
    def number(self) -> int:
        """The highest number, 0 if there is none."""
        return self.numbers[-1] if self.numbers else 0


def _parse(data: bytes, path: str) -> tuple[Members, list[Json]]:
    members, history, cause = None, None, None
    try:
        file = json.loads(data)
        members, history = file[_MEMBERS], file[_HISTORY]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        cause = error
    if not isinstance(members, dict) or not isinstance(history, list):
        raise FormatError(
            f"{path}: not a document of a catalog; expected '{_MEMBERS}' and '{_HISTORY}'.",
            kind="metadata-json",
            details={"path": path},
        ) from cause
    return members, history


def _unknown(path: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"Whether '{path}' came in time is unknown; look at the document first.",
        details={"path": path},
    )
