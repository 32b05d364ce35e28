"""One spelling for each path, so that two names of one folder are known to be one."""

import os
import posixpath
from pathlib import Path

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.local import local_path
from paimon_assets.engine.fileio.opening import scheme_of


def absolute_path(path: str) -> str:
    """Return a path that says the same wherever its reader runs.

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
