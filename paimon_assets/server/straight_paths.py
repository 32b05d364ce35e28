"""Local folders of external tables, in which no symbolic link is followed.

A link created between the check and the use is followed; so a server with roots on a local disk is
for users that may read all files of the server.
"""

from collections.abc import Callable, Sequence
from typing import Concatenate

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec
from paimon_assets.engine.fileio.delegating import DelegatingFileIO, P, T, make
from paimon_assets.engine.fileio.opening import canonical_path, scheme_of
from paimon_assets.engine.spec.segments.segment import plain_path


def recorded_path(path: str) -> str:
    """Return a folder as it is recorded: on a local disk without links.

    >>> recorded_path("s3://bucket/a/"), recorded_path("file:///no-such/a/")
    ('s3://bucket/a', '/no-such/a')
    """
    return plain_path(canonical_path(path)) if scheme_of(path) == "file" else path.rstrip("/")


class StraightFileIO(DelegatingFileIO):
    """A local storage that refuses paths with links."""

    def __init__(self, inner: FileIO) -> None:
        self._inner = inner

    @property
    def spec(self) -> FileIOSpec:
        return self._inner.spec

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete_file(path)

    def _pass_on(
        self, method: Callable[Concatenate[FileIO, P], T], *args: P.args, **_: P.kwargs
    ) -> T:
        for path in args:
            if isinstance(path, str) and plain_path(path) != plain_path(canonical_path(path)):
                raise InvalidInputError(
                    f"'{path}' is led elsewhere by a link, which is not followed outside the "
                    "warehouse.",
                    kind="path-link",
                )
        return make(self._inner, method, *args)
