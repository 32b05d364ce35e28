"""ObjectFileIO: S3, Google's and Azure's object stores through obstore.

Messages name paths, never option values, which may be credentials.
"""

import errno
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import chain, groupby
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import pyarrow as pa

from paimon_assets.engine import errors
from paimon_assets.engine.fileio import base, ranged
from paimon_assets.engine.fileio import object_clients as clients
from paimon_assets.engine.fileio import object_uploads as uploads
from paimon_assets.engine.fileio import request_planner as planner
from paimon_assets.engine.fileio.atomic import NEEDS_SERVER, NO_ATOMIC_PUBLISH, temporary_name
from paimon_assets.engine.fileio.parallel_requests import Together, is_witnessed, send
from paimon_assets.engine.fileio.s3_listing import NoListingError, Page, S3Listing

logger = logging.getLogger(__name__)

_MARK = "paimonpublish"
"""Metadata key of the publish that made an object; Azure takes letters only."""
_PROVEN: set[tuple[str, str]] = set()
"""(endpoint, bucket) that was seen to refuse a put of a name that was taken."""
_PROOFS: dict[tuple[str, str, int], Future[None]] = {}
"""(endpoint, bucket, process) → the look whether it does, until a publish takes the answer."""
_HINTS: dict[str, Future[None]] = {}
"""Path → the last write of a hint, which is not waited for."""
os.register_at_fork(after_in_child=_HINTS.clear)
_ENDS_HELD = 64
"""Ends of files that may change, asked for ahead and not opened yet: 256 KiB each at most."""
_KEPT_ENDS = ranged.KeptEnds(32 * 1024 * 1024)
_MOST_DELETED = dict.fromkeys(base.S3_SCHEMES, 1_000) | dict.fromkeys(base.AZURE_SCHEMES, 256)
"""Files in a request of a deletion."""
_PAGE = 1_000
"""Names in a request of a listing."""
_BEYOND_THE_END = "(416"
"""In the text of an error: HTTP's status of a range behind the end."""
_NOT_STORED = (
    "it answers that the object was stored, and lacks it; look at the storage's endpoint, and at "
    "proxies in front of it"
)
_WHOLE_BYTES = 64 * 1024 * 1024
"""Up to this size bytes at hand go up in one request."""


class ObjectFileIO(base.FileIO):
    """FileIO over the buckets of one kind of object store; opened by `fileio.opening`."""

    def __init__(self, spec: base.FileIOSpec) -> None:
        self._spec = spec
        self._open_writer = import_module("obstore").open_writer
        self._options = {key.partition(".")[2]: value for key, value in spec.options.items()}
        self._key = tuple(sorted(spec.options.items()))
        self._together = Together()
        self._ends: dict[tuple[str, int], tuple[Future[pa.Buffer], dict[str, str]]] = {}
        """(path, bytes) → the end of a file that may change, on its way, and its version."""
        self._expected: dict[str, str] = {}
        requests = planner.Requests(
            read=self._read,
            is_file=self._is_file,
            listing=self._list,
            holds=self._holds,
            page=self._page,
            lists_wide=spec.scheme in base.S3_SCHEMES,
        )
        self._planner = planner.RequestPlanner(requests, self._together, self._key)

    @property
    def spec(self) -> base.FileIOSpec:
        return self._spec

    def ahead(self, **asked: Any) -> AbstractContextManager[Callable[[], bool]]:
        if not asked.get("guesses"):  # a read after a commit knows its hint
            wait([sent for path in asked.get("hints", ()) if (sent := _HINTS.get(path))])
        return self._planner.ahead(**asked)

    def at_once(self) -> AbstractContextManager[None]:
        return self._together.at_once()

    def read_bytes(self, path: str) -> bytes:
        return self._together.answer(self._read, path, self._read)

    def _read(self, path: str) -> bytes:
        with self._errors(path):
            store, key = self._at(path)
            try:
                result = store.get(key)
            except FileNotFoundError as error:
                if self._spec.scheme in base.S3_SCHEMES and "<Code>" not in str(error):
                    raise OSError(errno.EIO, f"404 {clients.NOT_OF_S3}") from None
                raise
            data = bytes(_whole(result.bytes(), result.meta["size"]))
            self._planner.keep(path, result.meta["e_tag"], data)
            return data

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        known = size or self.file_size(path)
        sent, version = self._ends.pop((path, known), (None, self._version(path)))
        fetch = partial(self._read_range, path, known, version)
        sent = sent or _KEPT_ENDS.get((self._key, path, known))
        return ranged.RangedInput(ranged.RangedFile(fetch, known, sent))

    def expect(self, tags: Mapping[str, str]) -> None:
        self._expected.update(tags)

    def _version(self, path: str) -> dict[str, str]:
        """Return the tag to find of a file that is opened; if any will do, the first answer's."""
        expected = self._expected.get(path)
        return {} if expected is None else {"tag": expected}

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        with self._errors(path):
            store, key = self._at(path)
            starts, ends = zip(*ranges, strict=True)
            try:
                found = store.get_ranges(key, starts=starts, ends=ends, coalesce=ranged.GAP_BYTES)
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # obstore cuts more than there is
                    raise
                raise OSError(errno.EIO, "it returned too few bytes of a file") from None
            sizes = (end - start for start, end in ranges)
            return [bytes(_whole(each, size)) for each, size in zip(found, sizes, strict=True)]

    def open_ahead(self, files: Iterable[tuple[str, int]], *, fixed: bool = False) -> None:
        for path, size in files:
            key = self._key, path, size
            if fixed and _KEPT_ENDS.get(key) is not None:
                continue
            version = self._version(path)
            sent = send(self._read_range, path, size, version, ranged.tail_start(size), size)
            if fixed:
                _KEPT_ENDS.put(key, sent)
            else:
                self._ends[path, size] = sent, version
        for oldest in list(self._ends)[:-_ENDS_HELD]:
            self._ends.pop(oldest, None)

    def _read_range(
        self, path: str, size: int, version: dict[str, str], start: int, end: int
    ) -> pa.Buffer:
        """Return the bytes between; raises only `OSError`, as files do."""
        if start >= end:
            return pa.py_buffer(b"")
        try:
            store, key = self._at(path)
            condition = {"if_match": f'"{version["tag"]}"'} if version else {}
            result = store.get(key, options={"range": (start, end), **condition})
            found, tag = result.meta["size"], planner.tag_of(result.meta)
            if found == size and (not tag or version.setdefault("tag", tag) == tag):
                return pa.py_buffer(_whole(result.bytes(), end - start))
        except Exception as error:  # noqa: BLE001 - it is raised again
            failure = clients.os_error(error)
            is_other = type(error).__name__ == "PreconditionError"
            found = size
            with suppress(errors.PaimonError):
                if _BEYOND_THE_END in str(failure):
                    found = self.file_size(path)
            if found == size and not is_other:
                raise failure from None
        if found == size:
            raise base.ReplacedFileError
        raise base.ChangedFileError(found, size)

    def open_output(self, path: str) -> pa.NativeFile:
        with self._errors(path):
            store, key = self._at(path)
            sizes = {"buffer_size": uploads.PART_BYTES, "max_concurrency": uploads.PARTS_AT_ONCE}
            opening = partial(self._open_writer, store, key, **sizes)
            put = partial(self._put_whole, path)
            return uploads.UploadStream(uploads.Upload(opening, put, partial(self._keep_end, path)))

    def _put_whole(self, path: str, data: bytes) -> None:
        if self._together.is_at_once:
            self.write_bytes(path, data)
        else:
            self._put(path, data)

    def _keep_end(self, path: str, size: int, last: bytes) -> None:
        end = Future[pa.Buffer]()
        end.set_result(pa.py_buffer(last[max(0, len(last) - size + ranged.tail_start(size)) :]))
        _KEPT_ENDS.put((self._key, path, size), end)

    def write_bytes(self, path: str, data: bytes) -> None:
        self._together.write(self._write, path, data)

    def _write(self, path: str, data: bytes) -> None:
        with self._errors(path):
            self._planner.keep(path, self._put(path, data), data)

    def _put(self, path: str, data: bytes) -> str | None:
        """Store an object, and return its ETag; errors are obstore's."""
        store, key = self._at(path)
        result = store.put(key, data, chunk_size=_WHOLE_BYTES)
        if not self._is_stored(result, data) and self._stored_size(path) != len(data):
            raise OSError(errno.EIO, _NOT_STORED)
        tag: str | None = result["e_tag"]
        return tag

    def _is_stored(self, result: Mapping[str, Any], data: bytes) -> bool:
        """Whether the answer to a put proves it: a gateway that is no S3 may say 200, too.

        S3's ETag is the MD5 of the content, but for some kinds of encryption.
        """
        if self._spec.scheme not in base.S3_SCHEMES:
            return True
        return planner.tag_of(result) == hashlib.md5(data, usedforsecurity=False).hexdigest()

    def _stored_size(self, path: str) -> int | None:
        with suppress(errors.NotFoundError):
            return self.file_size(path)
        return None

    def replace(self, path: str, data: bytes) -> None:
        self._write(path, data)

    write_hint = replace

    def write_hint_later(self, path: str, data: bytes) -> None:
        _HINTS[path] = send(self._write_after, _HINTS.get(path), path, data)

    def _write_after(self, before: Future[None] | None, path: str, data: bytes) -> None:
        wait([before] if before else [])
        try:
            self._write(path, data)
        except errors.PaimonError:
            logger.warning("the hint '%s' was not written", path, exc_info=True)

    def publish(self, path: str, data: bytes) -> bool:
        """Create a file once, after a proof that the store obeys the condition of the put.

        One that is only compatible may ignore it, and of two commits lose one without a word. So
        of each bucket the second put of a probe must be refused, once a process.

        Clients repeat a put whose answer was lost, and then meet their own object. Each object
        carries a mark of its publish, so "taken" and no answer at all are settled by a look.
        """
        with self._errors(path):
            store, key = self._at(path)
            early = _PROOFS.pop((*self._bucket_of(path), os.getpid()), None)
            self._prove(path) if early is None else early.result()
            mark = uuid4().hex
            try:
                result = store.put(key, data, mode="create", attributes={_MARK: mark})
            except Exception as error:  # noqa: BLE001 - after any error the stored object decides
                return self._looked_up(path, mark, clients.os_error(error))
            if not self._is_stored(result, data):
                return self._looked_up(path, mark, OSError(errno.EIO, _NOT_STORED))
            self._planner.keep(path, result["e_tag"], data)
            return True

    def _looked_up(self, path: str, mark: str, error: OSError) -> bool:
        """Return whether the object there is ours."""
        with suppress(Exception):
            store, key = self._at(path)
            try:
                attributes = store.get(key, options={"head": True}).attributes
            except FileNotFoundError:
                if isinstance(error, FileExistsError):
                    return False
            else:
                return bool(attributes.get(_MARK) == mark)
        message = f"The storage gave no answer whether '{path}' was created ({error.strerror})."
        raise errors.CommitUnknownError(message, path=path) from error

    def prepare_publish(self, path: str) -> None:
        bucket = self._bucket_of(path)
        if bucket not in _PROVEN and (*bucket, os.getpid()) not in _PROOFS:
            _PROOFS[*bucket, os.getpid()] = send(self._judge, path, *self._probe(path))

    def _bucket_of(self, path: str) -> tuple[str, str]:
        return self._options.get("endpoint", ""), planner.root_of(path)

    def _prove(self, path: str) -> None:
        """Raise unless the store was seen to refuse a put of a name that was taken."""
        if self._bucket_of(path) not in _PROVEN:
            self._judge(path, *self._probe(path))

    def _probe(self, path: str) -> tuple[str, list[Future[bool]]]:
        """Put an object beside a path twice at once; return it, and whether each was refused."""
        store, key = self._at(path)
        parent, _, name = key.rpartition("/")
        probe = f"{parent}/{temporary_name(name)}"
        return probe, [send(self._is_refused, store, probe) for _ in range(2)]

    def _judge(self, path: str, probe: str, both: list[Future[bool]]) -> None:
        wait(both)
        try:
            # A store that looks before it puts may take both at once; then it is asked once more.
            is_refused = any(each.result() for each in both)
            is_refused = is_refused or self._is_refused(self._at(path)[0], probe)
        finally:  # in the background: if it stays it is an orphan
            send(self.delete_file, f"{planner.root_of(path)}/{probe}")
        if not is_refused:
            message = (
                f"The storage of '{path}' ignores the condition of a conditional put (If-None-Match"
                f"), so concurrent commits could be lost. {NEEDS_SERVER}"
            )
            raise errors.UnsupportedFeatureError(message, kind=NO_ATOMIC_PUBLISH, path=path)
        _PROVEN.add(self._bucket_of(path))

    @staticmethod
    def _is_refused(store: Any, probe: str) -> bool:
        try:
            store.put(probe, b"probe", mode="create")
        except Exception as error:
            failure = clients.os_error(error)
            if isinstance(failure, FileExistsError):
                return True
            if failure.errno == clients.BUCKET_MISSING:
                raise
            kind, failed = errors.ACCESS_DENIED, f"Not permitted to create '{probe}'"
            if not isinstance(failure, PermissionError):
                kind, failed = "publish", f"The storage did not answer if '{probe}' can be replaced"
            raise errors.StorageError(
                f"{failed} ({failure.strerror}); nothing was published.", kind=kind
            ) from failure
        return False

    def exists(self, path: str) -> bool:
        return self._together.answer(self._is_file, path, self._is_there)

    def is_directory(self, path: str) -> bool:
        return self._together.answer(self._holds, path, self._holds)

    def _is_there(self, path: str) -> bool:
        return self._is_file(path) or self._holds(path)

    def _holds(self, path: str) -> bool:
        """Whether anything is below a path."""
        with self._errors(path):
            return bool(next(iter(self._pages(path, most=1)), []))

    def _is_file(self, path: str) -> bool:
        try:
            self.file_size(path)
        except errors.NotFoundError:
            return False
        return True

    def file_size(self, path: str) -> int:
        with self._errors(path):
            store, key = self._at(path)
            if not key:
                raise FileNotFoundError(errno.ENOENT, "a bucket is no file")
            return int(store.head(key)["size"])

    def list_directory(self, path: str) -> list[base.FileStatus]:
        path = path.rstrip("/")
        again = send(self._list_again, path) if is_witnessed() else None
        listed = self._together.answer(self._list, path, self._list)
        if not listed:
            self._look_above(path)
        if again is None:
            return listed
        both = {status.path: status for status in (*again.result(), *listed)}
        return [both[each] for each in sorted(both)]

    def _look_above(self, path: str) -> None:
        """Raise if the folder above an empty one of Google's has it.

        Of Google's answers obstore takes any XML or HTML for an empty listing, of Azure's none.
        """
        while self._spec.scheme in base.GOOGLE_SCHEMES:
            root, above = planner.root_of(path), path.rpartition("/")[0]
            listed = [] if path == root else self._list(above)
            is_above = path in {status.path for status in listed}  # perhaps with a marker alone
            if (path == root and is_witnessed()) or (is_above and not self._holds(path)):
                with self._errors(path):
                    raise NoListingError("it is empty")
            if path == root or listed:
                return
            path = above

    def _list_again(self, path: str) -> list[base.FileStatus]:
        """List a directory by another request: all that begins with its name."""
        with self._errors(path):
            key, listing = self._at(path)[1], self._listing(path)
            pages = self._pages(path)
            if listing is not None:
                pages = (page.objects for page in listing.pages(key))
            return planner.directories_of(path, chain.from_iterable(pages))(path)

    def _list(self, path: str) -> list[base.FileStatus]:
        with self._errors(path):
            (store, key), listing = self._at(path), self._listing(path)
            prefix = f"{key}/" if key else ""
            if listing is None:
                listed = store.list_with_delimiter(key or None)
                pages = [Page(listed["objects"], listed["common_prefixes"])]
            else:
                pages = list(listing.pages(prefix, delimiter="/"))
        statuses = [planner.status_of(path, each, key) for page in pages for each in page.objects]
        below = (each for page in pages for each in page.common_prefixes)
        statuses += [planner.directory_status(f"{path}/{planner.name_of(each)}") for each in below]
        shown = [each for each in statuses if each.path != path and each.name != planner.MARKER]
        return sorted(shown, key=lambda status: status.path)

    def list_tree(self, path: str) -> Callable[[str], list[base.FileStatus]]:
        with self._errors(path):
            return planner.directories_of(path.rstrip("/"), chain.from_iterable(self._pages(path)))

    def _pages(
        self, path: str, *, offset: str = "", most: int = _PAGE
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield the objects below a path, from behind a name on, as obstore describes them."""
        (store, key), listing = self._at(path), self._listing(path)
        if listing is None:
            yield from store.list(key, offset=offset or None, chunk_size=most)
        else:
            prefix = f"{key}/" if key else ""
            yield from (page.objects for page in listing.pages(prefix, after=offset, most=most))

    def _page(self, above: str, first: str) -> list[dict[str, Any]]:
        """Return the first objects below a path, from a directory on."""
        offset = "" if first == above else f"{self._at(first)[1]}/"
        return next(iter(self._pages(above, offset=offset)), [])

    def _listing(self, path: str) -> S3Listing | None:
        return clients.listing_of(
            self._spec.scheme, planner.root_of(path).rpartition("/")[2], self._options
        )

    def make_directory(self, path: str) -> None:
        """Make an empty object `.directory`, which represents a directory, unless there is one."""
        if not self.exists(path):
            self.write_bytes(f"{path.rstrip('/')}/{planner.MARKER}", b"")

    def delete_file(self, path: str) -> None:
        self._wait_for_writes(path)
        with suppress(errors.NotFoundError), self._errors(path):  # a missing bucket is an error
            store, key = self._at(path, alone=True)
            store.delete(key)
            if is_witnessed() and self._is_file(path):
                raise OSError(errno.EIO, "it answers that the file was deleted, and has it")

    def _wait_for_writes(self, *paths: str) -> None:
        """Wait for the writes of this thread, and for hints of a path or below it."""
        self._together.wait_for_writes()
        for hint in [each for each in _HINTS if each.startswith(paths)]:
            wait([_HINTS.pop(hint)])

    def delete_directory(self, path: str) -> None:
        self._wait_for_writes(path)
        with self._errors(path):
            self.delete_files([f"{planner.root_of(path)}/{key}" for key in self._keys(path)])
            # The rest are names that end with a slash, of other engines' directories.
            left = self._keys(path) if self._spec.scheme in base.S3_SCHEMES else []
            for key in left:
                self._delete_slash(path, key)
            if left and self._holds(path):
                raise OSError(errno.EIO, "it answers that files were deleted, and lists them")
        self._look_above(path)

    def _keys(self, path: str) -> list[str]:
        return [each["path"] for page in self._pages(path) for each in page]

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files; S3 takes 1,000 a request, Azure 256."""
        self._wait_for_writes(*paths)
        most = _MOST_DELETED.get(self._spec.scheme, 1)
        sent = [
            send(self._delete_some, some[start : start + most])
            for _, group in groupby(sorted(paths), planner.root_of)
            for some in [list(group)]
            for start in range(0, len(some), most)
        ]
        for each in sent:
            each.result()

    def _delete_some(self, paths: Sequence[str]) -> None:
        if len(paths) > 1:
            with suppress(errors.NotFoundError), self._errors(paths[0]):
                self._at(paths[0])[0].delete([self._at(path)[1] for path in paths])
                return
        for path in paths:  # Azure fails if one of many is missing
            self.delete_file(path)

    def _delete_slash(self, path: str, key: str) -> None:
        """Delete an object whose name ends with a slash, which obstore cannot name."""
        bucket = planner.root_of(path).rpartition("/")[2]
        client = clients.client_of(self._spec.scheme, bucket, self._options)
        endpoint = client.config.get("endpoint")
        if endpoint is None:
            endpoint = f"https://s3.{client.config['region']}.amazonaws.com"
        options = {
            **self._options,
            "endpoint": f"{endpoint.rstrip('/')}/{bucket}/{quote(key)}",
            "virtual-hosted-style-request": "true",
            "disable-bulk-delete": "true",
        }
        clients.client_of(self._spec.scheme, bucket, options).delete("")

    def delete_empty_directory(self, path: str) -> bool:
        """Delete the objects that stand for an empty directory; return whether it is gone."""
        if not self.exists(path) or self.list_directory(path):
            return False
        self.delete_file(f"{path.rstrip('/')}/{planner.MARKER}")
        if self._spec.scheme in base.S3_SCHEMES and self._holds(path):
            with self._errors(path):
                self._delete_slash(path, self._at(path)[1])
        return not self.exists(path)

    def rename_directory(self, source: str, target: str) -> None:
        """Copy all below a directory to a path that does not exist, then delete it.

        Schemas are copied last: they make a table.
        """
        if self.exists(target):
            raise errors.AlreadyExistsError(f"'{target}' exists already.", path=target)
        self._wait_for_writes(source)
        with self._errors(source):
            (store, old), (_, new) = self._at(source), self._at(target)
            keys = self._keys(source)
            if not keys:
                raise errors.NotFoundError(f"Directory '{source}' does not exist.", path=source)
            for is_schema in (False, True):
                some = [key for key in keys if ("/schema/" in key[len(old) :]) is is_schema]
                copies = [send(_copy, store, key, new + key[len(old) :]) for key in some]
                for copy in copies:
                    copy.result()
            # S3 may answer 200 to a copy that failed.
            if missing := {new + key[len(old) :] for key in keys}.difference(self._keys(target)):
                raise OSError(
                    errno.EIO, f"it answers that '{min(missing)}' was copied, and lacks it"
                )
        self.delete_directory(source)

    def _at(self, path: str, *, alone: bool = False) -> tuple[Any, str]:
        """Return the client of a path's bucket, and the object's name there.

        `alone`: one that deletes by requests of single names.
        """
        scheme, found, rest = path.partition("://")
        if not found or scheme != self._spec.scheme:
            raise base.foreign_path(path, self._spec.scheme)
        bucket, _, key = rest.partition("/")
        single = {"disable-bulk-delete": "true"} if alone and scheme in base.S3_SCHEMES else {}
        return clients.client_of(scheme, bucket, {**self._options, **single}), key.strip("/")

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except errors.PaimonError:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised again
            raise self._name_path(path, error) from clients.os_error(error)

    def _name_path(self, path: str, error: Exception) -> errors.PaimonError:
        failure = clients.os_error(error)
        if isinstance(failure, FileNotFoundError):
            return base.missing_file(path)
        if isinstance(error, ValueError):
            message = f"'{path}' is no path of an object store: it has an empty part, '.' or '..'."
            return errors.InvalidInputError(message, kind="path")
        if failure.errno == clients.BUCKET_MISSING:
            text = (
                f"The bucket of '{path}' does not exist. Look at its name, or create it with the "
                "storage's own tools; no bucket is created here."
            )
            return errors.StorageError(text, kind="bucket-not-found", path=path)
        address = self._options.get("endpoint", "")
        endpoint = (urlsplit(address).netloc or address).rpartition("@")[2]  # S3's may lack http://
        place = f"'{path}' of {endpoint}" if endpoint else f"'{path}'"
        text = f"Storage '{self._spec.scheme}' failed at {place}: {failure.strerror}."
        kind = errors.ACCESS_DENIED if isinstance(failure, PermissionError) else None
        return errors.StorageError(text, kind=kind, path=path)


def _whole(data: Any, size: int) -> Any:
    """Return the body of an answer; raises if it has not the bytes that its headers name."""
    if len(data) != size:
        raise OSError(errno.EIO, f"it returned {len(data)} bytes of {size}")
    return data


def _copy(store: Any, key: str, target: str) -> None:
    try:
        store.copy(key, target)
    except FileNotFoundError:  # with a number: of a put it would be another error
        raise FileNotFoundError(errno.ENOENT, "it is gone") from None
