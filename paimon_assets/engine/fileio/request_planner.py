"""Which requests answer questions that are known beforehand: one each, or a listing for many."""

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from paimon_assets.engine.fileio.base import FileStatus, missing_file
from paimon_assets.engine.fileio.parallel_requests import Question, Together, is_witnessed, send
from paimon_assets.engine.spec.values import Value

MARKER = ".directory"
"""The name of an object that represents a directory."""
_LEAST_LISTED = 3
"""Requests that a listing must spare: it costs as much as twelve reads, and takes longer."""
_SHORT = 100
"""Files of a directory that is listed in place of requests."""
_SMALL_FILES, _SMALL_BYTES = 1024, 16 * 1024
_SMALL: dict[tuple[Hashable, str], tuple[str, bytes]] = {}
"""(storage, path) → (tag of the object, content): small files that were read or written."""


def root_of(path: str) -> str:
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def name_of(key: str) -> str:
    return key.rpartition("/")[2]


def directory_status(path: str) -> FileStatus:
    return FileStatus(path=path, size=0, is_directory=True, modified_ms=0)


def directories_of(
    base: str, listed: Iterable[dict[str, Any]]
) -> Callable[[str], list[FileStatus]]:
    """Return a function that lists the directories below a path, given the objects there."""
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

    def entries(directory: str) -> list[FileStatus]:
        statuses = directories.get(directory.rstrip("/"), {})
        return [each for _, each in sorted(statuses.items()) if each.name != MARKER]

    return entries


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


class Requests(Value):
    """The requests of a storage that may be sent ahead."""

    read: Callable[[str], bytes]
    is_file: Callable[[str], bool]
    listing: Callable[[str], list[FileStatus]]
    holds: Callable[[str], bool]
    """Whether anything is below a path."""
    page: Callable[[str, str], list[dict[str, Any]]]
    """Returns the first objects below a path, from a directory on."""
    lists_wide: bool
    """Whether a listing may begin at a directory, and go on to those beside it."""


class RequestPlanner:
    """Sends the requests of a block ahead; keeps small files, which a listing shows unchanged."""

    def __init__(self, requests: Requests, together: Together, key: Hashable) -> None:
        """Share small files with the planners of an equal key: storage and credentials."""
        self._requests = requests
        self._together = together
        self._key = key
        self._long: set[str] = set()
        """Directories that are not listed in place of requests: of many files, or refused."""

    @contextmanager
    def ahead(
        self,
        *,
        reads: Iterable[str] = (),
        files: Iterable[str] = (),
        lists: Iterable[str] = (),
        folders: Iterable[str] = (),
        hints: Iterable[str] = (),
        guesses: bool = False,
    ) -> Iterator[Callable[[], bool]]:
        lists = [path.rstrip("/") for path in lists]
        old = [(self._requests.read, path) for path in hints]
        kept = [each for each in old if guesses and (self._key, each[1]) in _SMALL]
        questions: list[Question] = [each for each in old if each not in kept]
        questions += [(self._requests.read, path) for path in reads]
        questions += [(self._requests.is_file, path) for path in files]
        questions += [(self._requests.listing, path) for path in lists]
        questions += [(self._requests.holds, path) for path in folders]
        if is_witnessed():
            with self._together.ahead(questions) as confirm:
                yield confirm
        else:
            guess = partial(self._guess, set(lists)) if guesses else None
            known = {each: _SMALL[self._key, each[1]][1] for each in kept}
            with self._together.ahead(questions, self._ask, guess, known) as confirm:
                yield confirm

    def _guess(self, empty: Container[str], question: Question) -> Any:
        """Return the content that a small file had, False of a file that is looked for.

        Of a directory that is listed, that it is empty.
        """
        ask, path = question
        if ask == self._requests.read:
            missing = missing_file(path) if path.rpartition("/")[0] in empty else None
            return _SMALL.get((self._key, path), (None, missing))[1]
        return {self._requests.is_file: False, self._requests.listing: []}.get(ask)

    def _ask(self, questions: list[Question]) -> dict[Question, Future[Any]]:
        """Send requests; one listing in place of three or more about small directories.

        It shows which files exist, and which are still the ones that were read or written here.
        S3 lists directories side by side, such as those of a table, from the first asked one on.
        """
        sent: dict[Question, Future[Any]] = {}
        for is_wide in (True, False) if self._requests.lists_wide else (False,):
            groups: dict[str, list[Question]] = {}
            for question in questions:
                if question not in sent and question[0] != self._requests.holds:
                    directory = self._place(question)
                    above = directory.rpartition("/")[0] if is_wide else directory
                    groups.setdefault(above, []).append(question)
            for above, group in groups.items():
                first = min(map(self._place, group))
                is_one = first == max(map(self._place, group))
                unread = [
                    (ask, p)
                    for ask, p in group
                    if ask == self._requests.read and (self._key, p) not in _SMALL
                ]
                files = [each for each in group if each[0] != self._requests.listing]
                spares = len(files) >= _LEAST_LISTED + len(unread)
                if spares and is_one != is_wide and above not in self._long:
                    listed = send(self._list_above, above, first)
                    shown = [each for each in group if each not in unread]
                    sent |= {each: send(self._answer, listed, *each) for each in shown}
                    sent |= {each: send(*each) for each in unread}
        return sent | {each: send(*each) for each in questions if each not in sent}

    def _place(self, question: Question) -> str:
        return (
            question[1] if question[0] == self._requests.listing else question[1].rpartition("/")[0]
        )

    def _list_above(self, above: str, first: str) -> dict[str, dict[str, Any]] | None:
        """Return path → object below a path, from a directory on; None if many, or no answer."""
        page: list[dict[str, Any]] | None = None
        with suppress(Exception):  # single requests follow, and raise the error
            page = self._requests.page(above, first)
        if page is None or len(page) > _SHORT:
            self._long.add(above)
            return None
        return {f"{root_of(above)}/{each['path']}": each for each in page}

    def _answer(
        self, listed: Future[dict[str, dict[str, Any]] | None], ask: Callable[[str], Any], path: str
    ) -> Any:
        """Answer a question by a listing, as far as that tells."""
        objects = listed.result()
        if objects is None:
            return ask(path)
        if ask == self._requests.listing:
            return directories_of(path, objects.values())(path)
        if ask == self._requests.is_file:
            return path in objects
        if path not in objects:
            _SMALL.pop((self._key, path), None)
            raise missing_file(path)
        tag, data = _SMALL.get((self._key, path), ("", b""))
        return data if tag and objects[path]["e_tag"] == tag else ask(path)

    def keep(self, path: str, tag: str | None, data: bytes) -> None:
        """Remember a small file, to read it once as long as listings show it unchanged."""
        if tag and len(data) <= _SMALL_BYTES:
            _SMALL.pop((self._key, path), None)
            _SMALL[self._key, path] = tag, data
            for oldest in list(_SMALL)[:-_SMALL_FILES]:
                _SMALL.pop(oldest, None)
