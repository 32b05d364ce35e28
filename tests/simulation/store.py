"""A storage in memory: folders of files. Each call on it is a turn of the scheduler, and may fail.

It knows no names of Paimon, and keeps to the rules that a disk, an object store and HDFS have in
common; `disks` adds those of each.
"""

import errno
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, TypeVar

from tests.simulation.scheduler import START, Call, Scheduler, counts

T = TypeVar("T")
_MOST_CALLS_LATE = 200


class Fault(StrEnum):
    FAIL = "fails before it has an effect"
    LOSE = "has its effect, and the answer is lost"
    TWICE = "is made twice by the client, which has the second answer"
    LATE = "has its effect later, and the client has no answer"
    DIE = "is the last of its process, and has no effect"


@dataclass(slots=True)
class File:
    data: bytes
    modified_ms: int
    number: int
    links: int = 1
    mark: object = None
    """An attribute that the writer of an object gave it."""


@dataclass(slots=True)
class Store:
    """Files by path, with a watcher of writes."""

    files: dict[str, File | None] = field(default_factory=lambda: {"": None})
    """Path → file; None is a folder."""
    numbers: int = 0
    now_ms: int = 1_700_000_000_000
    scheduler: Scheduler | None = None
    fault_of: Callable[[Call], Fault | None] = lambda _: None
    watch: Callable[[Call], None] = lambda _: None
    late: list[tuple[int, Call, Callable[[], object]]] = field(default_factory=list)
    """(number of the call when it is due, call, effect)."""
    uploads: set[str] = field(default_factory=set)
    """Paths of objects of which parts are stored, and which are not completed or aborted."""
    has_failed: bool = False
    was_late: bool = False
    """Whether a call had its effect after its client had given up."""
    made: Call = START
    """The last call, which writes if it changed something."""
    version: int = 0
    """Another one after each change."""
    names: int = 0
    """Another one after each change of a name that counts."""
    has_folders: bool = True
    """False of an object store: its folders are prefixes of names."""

    def copy(self) -> "Store":
        """Return a storage of the same files, for another run."""
        copies = {id(file): replace(file) for file in self.files.values() if file is not None}
        files = {path: file and copies[id(file)] for path, file in self.files.items()}
        return Store(files, self.numbers, self.now_ms, has_folders=self.has_folders)

    def call(self, call: Call, effect: Callable[[], T]) -> T:
        """Make a call at its turn; outside a run, at once."""
        if self.scheduler is None:
            return effect()
        self.scheduler.turn(call)
        version, names = self.version, self.names
        try:
            result = self._result(self.scheduler, call, effect)
        except OSError as error:
            self.scheduler.observe(repr(error))
            raise
        finally:
            writes = call.writes and version != self.version
            self.made = replace(call, writes=writes, names=names != self.names)
        self.scheduler.observe(_comparable(result))
        return result

    def _result(self, scheduler: Scheduler, call: Call, effect: Callable[[], T]) -> T:
        self._let_late_ones_arrive()
        fault = self.fault_of(call) if call.path else None
        self.has_failed |= fault is not None
        if fault is Fault.FAIL:
            raise OSError(errno.ETIMEDOUT, f"simulated: {call.kind} {fault}", call.path)
        if fault is Fault.LATE:
            due = scheduler.calls + scheduler.chance(_MOST_CALLS_LATE)
            self.late.append((due, call, effect))
            self.was_late = True
            raise OSError(errno.ETIMEDOUT, f"simulated: {call.kind} {fault}", call.path)
        result = effect()
        if call.writes:
            self.call_watcher(call)
        if fault is Fault.TWICE:
            return effect()
        if fault is Fault.LOSE:
            raise OSError(errno.ETIMEDOUT, f"simulated: {call.kind} {fault}", call.path)
        return result

    def _let_late_ones_arrive(self, *, all_of_them: bool = False) -> None:
        now = None if all_of_them or self.scheduler is None else self.scheduler.calls
        arriving = [each for each in self.late if now is None or each[0] <= now]
        for each in arriving:
            self.late.remove(each)
            with suppress(OSError):
                each[2]()
                self.call_watcher(each[1])

    def settle(self) -> None:
        """Let all that is late arrive."""
        self._let_late_ones_arrive(all_of_them=True)

    def call_watcher(self, call: Call) -> None:
        """Call the watcher outside all turns; its error ends the run."""
        scheduler, self.scheduler = self.scheduler, None
        try:
            self.watch(call)
        except Exception as error:
            if scheduler is None:
                raise
            scheduler.fail(error)
        finally:
            self.scheduler = scheduler

    def digest(self) -> int:
        """Return a number that is another one for other files."""
        return hash(
            tuple(
                (path, file and (file.data, file.modified_ms, file.links, repr(file.mark)))
                for path, file in sorted(self.files.items())
            )
        )

    # The methods below have no turns: effects of calls are made of them.

    def _count_change(self, path: str, *, is_other: bool = True) -> None:
        self.version += 1
        self.names += is_other and counts(path.rpartition("/")[2])

    def find(self, path: str) -> File | None:
        """Return a file, or None for a folder; FileNotFoundError if there is none."""
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self.files[path]

    def file(self, path: str) -> File:
        file = self.find(path)
        if file is None:
            raise IsADirectoryError(errno.EISDIR, "a folder", path)
        return file

    def has(self, path: str) -> bool:
        return path in self.files

    def is_folder(self, path: str) -> bool:
        return self.files.get(path, self) is None

    def names_in(self, path: str) -> list[str]:
        """Return the entries of a folder, by name; NotADirectoryError for a file."""
        if self.find(path) is not None:
            raise NotADirectoryError(errno.ENOTDIR, "a file", path)
        names = (each[len(path) + 1 :] for each in self.files if each.startswith(f"{path}/"))
        return sorted(name for name in names if "/" not in name)

    def _check_target(self, path: str, *, is_new: bool) -> None:
        if self.has_folders and not self.is_folder(path.rpartition("/")[0]):
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        if is_new and path in self.files:
            raise FileExistsError(errno.EEXIST, "it exists", path)

    def put(self, path: str, data: bytes, *, is_new: bool = False, mark: object = None) -> File:
        """Make a file, or another in its place; FileExistsError if it must be new."""
        self._check_target(path, is_new=is_new)
        self.numbers += 1
        self._count_change(path, is_other=path not in self.files)
        self.files[path] = file = File(data, self.now_ms, self.numbers, mark=mark)
        return file

    def link(self, path: str, target: str) -> None:
        """Give a file a second name, which is free."""
        file = self.file(path)
        self._check_target(target, is_new=True)
        self.files[target] = file
        file.links += 1
        self._count_change(target)

    def delete_if_there(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self.delete(path)

    def delete(self, path: str) -> None:
        self.file(path).links -= 1
        self._count_change(path)
        del self.files[path]

    def make_folders(self, path: str) -> None:
        """Make a folder and its parents; fine if it exists."""
        if not self.is_folder(path) and self.has_folders:
            self.make_folders(path.rpartition("/")[0])
            self._check_target(path, is_new=True)
            self.files[path] = None
            self._count_change(path)

    def delete_folder(self, path: str) -> None:
        """Delete an empty folder."""
        if self.names_in(path):
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        del self.files[path]
        self._count_change(path)

    def fill(self, file: File, data: bytes) -> None:
        """Give an open file its bytes."""
        file.data, file.modified_ms = data, self.now_ms
        self._count_change(".")

    def move(self, source: str, target: str, *, replaces: bool) -> None:
        """Give a file or a folder another name; a disk replaces a file, or an empty folder."""
        self.find(source)
        self._check_target(target, is_new=not replaces)
        if self.is_folder(target) and self.names_in(target):
            raise OSError(errno.ENOTEMPTY, "not empty", target)
        self._count_change(source)
        self._count_change(target, is_other=target not in self.files)
        for path in [p for p in self.files if p == source or p.startswith(f"{source}/")]:
            self.files[target + path[len(source) :]] = self.files.pop(path)

    def below(self, folder: str) -> Iterator[tuple[str, File]]:
        """Yield the files below a folder, by path."""
        for path, file in sorted(self.files.items()):
            if file is not None and path.startswith(f"{folder}/"):
                yield path, file


def _comparable(answer: Any) -> Hashable:
    """Return an answer as it can be compared; a file's number is left out."""
    if isinstance(answer, File):
        return answer.data, answer.modified_ms, repr(answer.mark)
    if isinstance(answer, list | tuple):
        names = (each if isinstance(each, str) else getattr(each, "name", "") for each in answer)
        return tuple(_comparable(e) for e, name in zip(answer, names, strict=True) if counts(name))
    if isinstance(answer, SimpleNamespace):
        fields = [(k, v) for k, v in vars(answer).items() if k != "st_ino" and not callable(v)]
        return tuple((key, _comparable(value)) for key, value in fields)
    return answer if isinstance(answer, bytes | str) else repr(answer)
