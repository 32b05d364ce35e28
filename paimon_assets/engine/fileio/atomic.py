"""Publish-if-absent: create a file with its whole content, only if there is none of that name.

All promises of a commit rest on this one step. Guarantees of each storage:

============================  =====================================  ==============================
storage                       how                                    guarantee
============================  =====================================  ==============================
local disk, NFS               temporary file, then a hard link,      one winner among all processes
                              which fails if the name is taken       and hosts that publish so
`s3`, `s3a`                   put with `If-None-Match: *`            one winner
`gs`, `gcs`                   put with `ifGenerationMatch=0`         one winner
`abfs`, `abfss`, `az`         put with `If-None-Match: *`            one winner
`hdfs`                        temporary file, then a rename, which   one winner
                              HDFS refuses if the target exists
`memory` (tests)              a lock of this process                 one winner in this process
any other                     none                                   `UnsupportedFeatureError`
============================  =====================================  ==============================

A store that takes a condition but ignores it would lose commits; so before the first conditional
put of a process the store must refuse a second put of one name (`object_store`); without that proof
nothing is published.

A published file survives the death of its writer at any point. It is not flushed to the platter:
neither are the data files it names, so after a power failure the last commits of a local table may
be gone or damaged (the same holds for Paimon's own local storage). `file.fsync` flushes them.
Source: `org.apache.paimon.fs.FileIO`, `org.apache.paimon.catalog.RenamingSnapshotCommit`,
redesigned: a check followed by a rename loses commits of concurrent processes.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from paimon_assets.engine import errors

NO_ATOMIC_PUBLISH = "no-atomic-publish"
"""Kind of the errors of a storage that can never publish; one server as only writer helps."""

NEEDS_SERVER = (
    "Tables on it can be read only, unless one catalog server makes all commits: "
    "paimon-assets serve --sole-writer."
)

_WITHOUT_LINKS = frozenset({errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS})
"""Answers of `link` where there are no hard links at all."""

_REFUSED = frozenset(
    {
        *_WITHOUT_LINKS,
        errno.EACCES,
        errno.EDQUOT,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EROFS,
        errno.EXDEV,
    }
)
"""Answers of `link` that mean: surely not done."""


def temporary_name(name: str) -> str:
    """Return a fresh hidden name for a file that becomes `name`, as Paimon names them."""
    return f".{name}.{uuid4().hex}.tmp"


def link_if_absent(target: Path, data: bytes, write: Callable[[Path, bytes], None]) -> bool:
    """Publish on a local or network file system; `write` makes the temporary file."""
    temporary = target.with_name(temporary_name(target.name))
    try:
        write(temporary, data)
        return _link(target, temporary)
    finally:
        # A failed deletion of the temporary file does not concern the published one.
        with suppress(OSError):
            temporary.unlink()


def _link(target: Path, temporary: Path) -> bool:
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        # NFS may answer "exists" to the repetition of a call that succeeded: two names show it.
        return _has_two_names(temporary, target)
    except OSError as error:
        if error.errno in _WITHOUT_LINKS:
            raise errors.UnsupportedFeatureError(
                f"The file system of '{target}' has no hard links, which make a commit atomic, so "
                f"concurrent commits could be lost. {NEEDS_SERVER}",
                kind=NO_ATOMIC_PUBLISH,
                path=str(target),
            ) from error
        if error.errno == errno.ENOENT:  # both names were there: a drop took the directory
            raise errors.NotFoundError(
                f"Cannot create '{target}': its directory was removed meanwhile.",
                kind="directory-not-found",
                path=str(target),
            ) from error
        if error.errno in _REFUSED:
            raise errors.StorageError(
                f"Cannot create '{target}': {error.strerror}.", kind="publish", path=str(target)
            ) from error
        if _has_two_names(temporary, target):
            return True
        raise _unknown_outcome(target, error) from error
    return True


def _has_two_names(temporary: Path, target: Path) -> bool:
    try:
        return temporary.stat().st_nlink > 1
    except OSError as error:
        raise _unknown_outcome(target, error) from error


def _unknown_outcome(target: Path, error: OSError) -> errors.CommitUnknownError:
    message = f"The file system did not say whether '{target}' was created: {error.strerror}."
    return errors.CommitUnknownError(message, path=str(target))


def is_refused(error: BaseException) -> bool:
    """Whether a request failed because the storage does not take its credentials.

    The filesystems of fsspec pass on errors of their SDK: a `PermissionError`, or an error with
    the HTTP status, somewhere in its chain of causes.
    """
    cause: BaseException | None = error
    while cause is not None:
        codes = {str(getattr(cause, name, "")) for name in ("code", "status", "status_code")}
        if isinstance(cause, PermissionError) or codes & {"401", "403"}:
            return True
        cause = cause.__cause__ or cause.__context__
    return False
