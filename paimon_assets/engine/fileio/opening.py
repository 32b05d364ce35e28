"""Opening a storage: from a spec on another machine, or from a path and a person's options.

Options of a storage are its scheme and a dot in front of the filesystem's own argument, dashes for
underscores: `gs.token`, `abfs.account-name`, `hdfs.user`. For S3 Paimon's names serve:
`s3.endpoint`, `s3.access-key`, `s3.secret-key`, `s3.session-token`, `s3.region`,
`s3.path-style-access`. Options of other prefixes are no business of the storage and are left out of
its spec.
"""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from paimon_assets.engine import errors
from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import OBJECT_SCHEMES, S3_SCHEMES, FileIO, FileIOSpec
from paimon_assets.engine.fileio.local import LocalFileIO, local_path
from paimon_assets.engine.spec.options.all_options import Options
from paimon_assets.engine.spec.options.catalog_options import FILE_FSYNC, LOCK_ENABLED

if TYPE_CHECKING:
    import pyarrow.fs as pafs


T = TypeVar("T")
_HDFS = frozenset({"hdfs", "viewfs"})
_WITHOUT_USERS = S3_SCHEMES | {"gs", "gcs", "oss"}
"""Schemes whose paths name a bucket and no user."""


class Renewing(FileIO, Protocol):
    """A storage that renews its credentials (`renewed.RenewedFileIO`)."""

    def renewed_spec(self, refused: FileIOSpec | None) -> FileIOSpec:
        """Return a spec with newer credentials than the refused ones, if there are any."""


_RENEWING: WeakValueDictionary[str, Renewing] = WeakValueDictionary()


def scheme_of(path: str) -> str:
    """Return a path's scheme, `file` if it has none.

    >>> scheme_of("s3://bucket/a"), scheme_of("file:/a"), scheme_of("/a:b/c")
    ('s3', 'file', 'file')
    """
    scheme, found, _ = path.partition("://")
    return scheme.lower() if found and "/" not in scheme else "file"


def file_io_for(path: str, options: Mapping[str, str] | None = None) -> FileIO:
    if Options(options or {}).get(LOCK_ENABLED):
        raise errors.UnsupportedFeatureError(
            f"'{LOCK_ENABLED.key}' = true: this engine takes no catalog lock, and other writers "
            "rely on theirs. Without the option the storage itself refuses a second snapshot of "
            "one number; where it cannot, let one catalog server make all commits "
            "(paimon-assets serve --sole-writer).",
            kind="catalog-lock",
        )
    scheme = scheme_of(path)
    if scheme in _WITHOUT_USERS and "@" in path.partition("://")[2].partition("/")[0]:
        raise errors.InvalidInputError(
            f"Path '{path}' carries a key in front of its bucket; give it by options such as "
            "'s3.access-key' and 's3.secret-key', or by the environment.",
            kind="path",
        )
    prefixes = ("s3.", "s3a.") if scheme in S3_SCHEMES else (f"{scheme}.",)
    own = {key: value for key, value in (options or {}).items() if key.startswith(prefixes)}
    if scheme in _HDFS and "hdfs.host" not in own:
        authority = path.partition("://")[2].partition("/")[0]
        host, _, port = authority.partition(":")
        own |= {"hdfs.host": host or "default"} | ({"hdfs.port": port} if port else {})
    return open_file_io(FileIOSpec(scheme=scheme, options=own))


def open_file_io(spec: FileIOSpec) -> FileIO:
    """Open the storage a spec describes; `open_file_io(file_io.spec)` opens the same one.

    In the process of a storage that renews its credentials, that storage itself.
    """
    renewing_one = _renewing_one(spec)
    if renewing_one is not None:
        return renewing_one
    if spec.expires_ms is not None and spec.expires_ms <= time.time() * 1000:
        raise errors.StorageError(
            f"The credentials for storage '{spec.scheme}' that this work was planned with have"
            " expired. Plan it again; if it took longer than they live, let the catalog hand out"
            " some that live longer.",
            kind=errors.TOKEN_EXPIRED,
            scheme=spec.scheme,
            expires_ms=spec.expires_ms,
        )
    if spec.scheme == "file":
        if not Options(spec.options).get(FILE_FSYNC):
            return LocalFileIO()
        from paimon_assets.engine.fileio.flushed import FlushedFileIO

        return FlushedFileIO()
    from paimon_assets.engine.fileio.arrow_fs import ArrowFileIO

    if spec.scheme in _HDFS:
        return ArrowFileIO(_guard(spec, lambda: _open_hdfs(spec)), spec)
    if spec.scheme in OBJECT_SCHEMES:
        from paimon_assets.engine.fileio.object_store import ObjectFileIO

        return _guard(spec, lambda: ObjectFileIO(spec))
    # A listing kept from before would hide the files other processes have written since.
    arguments = {"use_listings_cache": False} | {
        key.partition(".")[2].replace("-", "_"): value for key, value in spec.options.items()
    }
    backend = _guard(spec, lambda: import_module("fsspec").filesystem(spec.scheme, **arguments))
    from paimon_assets.engine.fileio.arrow_fs import GuardedHandler

    handler = GuardedHandler(backend)  # type: ignore[abstract]  # because the stubs are wrong
    import pyarrow.fs as pafs

    return ArrowFileIO(pafs.PyFileSystem(handler), spec, backend=backend)


def renewing(file_io: Renewing) -> str:
    """Return the option of a storage that renews its credentials (`renewed_by`).

    As long as the storage is referenced, `open_file_io` of this process returns it.
    """
    key = uuid4().hex
    _RENEWING[key] = file_io
    return key


def current_spec(spec: FileIOSpec, *, is_refused: bool = False) -> FileIOSpec:
    """Return a spec as of now, for work that is handed out long after it was planned."""
    renewing_one = _renewing_one(spec)
    return spec if renewing_one is None else renewing_one.renewed_spec(spec if is_refused else None)


def _renewing_one(spec: FileIOSpec) -> Renewing | None:
    return None if spec.renewed_by is None else _RENEWING.get(spec.renewed_by)


def _guard(spec: FileIOSpec, opening: Callable[[], T]) -> T:
    try:
        return opening()
    except ImportError as error:
        is_ours = spec.scheme in OBJECT_SCHEMES
        package = "obstore" if is_ours else str(error)
        way_out = "paimon-assets[object-stores]" if is_ours else "it"
        raise errors.InvalidInputError(
            f"Storage '{spec.scheme}' needs a package that is not installed ({package}): install "
            f"{way_out}.",
            kind="storage-scheme",
            scheme=spec.scheme,
        ) from error
    except ValueError as error:
        raise errors.InvalidInputError(
            f"Storage '{spec.scheme}' is unknown: no fsspec package knows it. Correct the path.",
            kind="storage-scheme",
            scheme=spec.scheme,
        ) from error
    except Exception as error:
        # The SDK's text may quote an option value; it stays in the chain, out of the message.
        raise errors.StorageError(
            f"Storage '{spec.scheme}' could not be opened ({type(error).__name__}); look at its "
            f"options {', '.join(sorted(spec.options)) or '(none)'}.",
            scheme=spec.scheme,
        ) from error


def _open_hdfs(spec: FileIOSpec) -> pafs.FileSystem:
    import pyarrow.fs as pafs

    return pafs.HadoopFileSystem(
        host=spec.options.get("hdfs.host", "default"),
        port=int(spec.options.get("hdfs.port", "0")),
        user=spec.options.get("hdfs.user"),
    )


def absolute_path(path: str) -> str:
    """Return a path that means the same on every machine.

    >>> absolute_path("s3://b/wh/db.db/t"), absolute_path("/wh/db.db/t")
    ('s3://b/wh/db.db/t', '/wh/db.db/t')
    """
    return path if ":" in path.partition("/")[0] else str(Path(path).absolute())


def canonical_path(path: str) -> str:
    """Return an absolute path with its scheme, without links, `.`, `..` and trailing slashes.

    >>> canonical_path("s3://bucket/a//b/../c/"), canonical_path("file:///no-such/./folder/")
    ('s3://bucket/a/c', 'file:/no-such/folder')
    """
    if scheme_of(path) == "file":
        return f"file:{os.path.realpath(local_path(path))}"
    scheme, _, rest = path.partition("://")
    authority, _, below = rest.partition("/")
    normal = posixpath.normpath(f"/{below}").lstrip("/")
    if ".." in below.split("/") and posixpath.normpath(below).startswith(".."):
        raise InvalidInputError(f"Path '{path}' leaves '{authority}'.", kind="path")
    return f"{scheme.lower()}://{authority}" + (f"/{normal}" if normal else "")
