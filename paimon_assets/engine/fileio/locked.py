"""LockedFileIO: a storage whose files are published under the catalog's lock."""

import re
from collections.abc import Callable, Mapping
from typing import Concatenate

from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.atomic import NO_ATOMIC_PUBLISH
from paimon_assets.engine.fileio.base import FileIO, FileIOSpec
from paimon_assets.engine.fileio.catalog_lock import catalog_lock
from paimon_assets.engine.fileio.passing import P, PassingFileIO, T, made

_BRANCH = re.compile(r"/branch/branch-([^/]+)$")


class LockedFileIO(PassingFileIO):
    """A storage that publishes under a lock; everything else is the storage's own.

    `spec` is the storage's: who opens it elsewhere reads and writes data files, and publishes
    nothing.

    Args:
        inner: The storage.
        options: The catalog's. Nothing is locked for reading, so a wrong one shows when the first
            file is published.
    """

    def __init__(self, inner: FileIO, options: Mapping[str, str]) -> None:
        self._inner = inner
        self._options = dict(options)

    @property
    def spec(self) -> FileIOSpec:
        """See `FileIO`."""
        return self._inner.spec

    def publish(self, path: str, data: bytes) -> bool:
        """Create a file if there is none of that name, while no other writer of the table does.

        Where the storage itself refuses a name that is taken, it is asked to all the same.

        Raises:
            See `CatalogLock.hold`, `catalog_lock` and `FileIO.publish`.
        """
        with catalog_lock(self._options).hold(locked_name(path)):
            return self._publish_alone(path, data)

    def _publish_alone(self, path: str, data: bytes) -> bool:
        if self._inner.exists(path):
            return False
        try:
            return self._inner.publish(path, data)
        except PaimonError as error:
            if error.kind != NO_ATOMIC_PUBLISH:
                raise
        self._inner.replace(path, data)
        return True

    def _passed(
        self, method: Callable[Concatenate[FileIO, P], T], *args: P.args, **_: P.kwargs
    ) -> T:
        return made(self._inner, method, *args)


def locked_name(path: str) -> str:
    """Return what is locked to publish a file: its table by name, or the directory of a bare one.

    >>> locked_name("s3://b/w/sales.db/orders/snapshot/snapshot-7")
    'sales.orders'
    >>> locked_name("/w/sales.db/orders/branch/branch-audit/schema/schema-0")
    'sales.orders$branch_audit'
    >>> locked_name("/tables/orders/snapshot/snapshot-7")
    '/tables/orders'
    """
    directory = path.rpartition("/")[0].rpartition("/")[0]
    branch = _BRANCH.search(directory)
    table_path = directory if branch is None else directory[: branch.start()]
    suffix = "" if branch is None else f"$branch_{branch[1]}"
    parent, _, table = table_path.rpartition("/")
    database = parent.rpartition("/")[2]
    if not database.endswith(".db"):
        return table_path + suffix
    return f"{database.removesuffix('.db')}.{table}{suffix}"
