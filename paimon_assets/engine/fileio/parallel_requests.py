"""Requests to an object store side by side: independent requests do not wait for each other.

The engine's logic makes one call at a time. Where it is known beforehand which files
a step reads, `ahead` asks for all of them at once, and the step then finds the answers; where a
step writes files that nothing reads before its end, `at_once` lets them go up together. Both are
per thread, and change no order between a step and the next.

A step that only prepares may begin before the answers come: it takes those that were true before,
as guesses, and in the end `confirm` compares them with the answers.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import local
from types import MappingProxyType
from typing import Any, TypeVar

from paimon_assets.engine.errors import NotFoundError

_REQUESTS = 16
"""Requests of a process that wait side by side."""
T = TypeVar("T")


@lru_cache(maxsize=1)
def _pool(process_id: int) -> ThreadPoolExecutor:
    """Return the threads of this process: a forked one has none of its parent's."""
    return ThreadPoolExecutor(_REQUESTS, thread_name_prefix="storage")


def send(ask: Callable[..., T], *arguments: Any) -> Future[T]:
    """Make a request in one of the process's threads."""
    return _pool(os.getpid()).submit(ask, *arguments)


_IS_WITNESSED: ContextVar[bool] = ContextVar("is_witnessed", default=False)


@contextmanager
def with_witnesses() -> Iterator[None]:
    """Let an object store answer each question of the block by a request of its own.

    For facts that decide a deletion. A directory is asked for by two different requests, and has
    the files of both; of a single file that was deleted it is asked whether it is gone.
    """
    before = _IS_WITNESSED.set(True)
    try:
        yield
    finally:
        _IS_WITNESSED.reset(before)


def is_witnessed() -> bool:
    return _IS_WITNESSED.get()


Question = tuple[Callable[..., Any], str]
"""(the request, the path it is about)."""
Ask = Callable[[list[Question]], dict[Question, Future[Any]]]
"""Sends requests."""


def send_each(questions: list[Question]) -> dict[Question, Future[Any]]:
    return {question: send(*question) for question in questions}


_AS_KNOWN = Future[Any]()
"""The answer to a question that is not asked."""
_AS_KNOWN.set_result(None)


def _is_answer(guess: Any, sent: Future[Any]) -> bool:
    if guess is None or sent is _AS_KNOWN:
        return True
    error = sent.exception()
    if isinstance(guess, NotFoundError):
        return isinstance(error, NotFoundError)
    return error is None and bool(sent.result() == guess)


class _Writes(local):
    """The writes of a thread that are not waited for yet, whichever storage takes them."""

    sent: list[Future[Any]] | None = None
    """None outside a block, and after the end of an inner one."""


_WRITES = _Writes()


class Together(local):
    """The requests of one thread that were sent ahead, or are not waited for yet."""

    def __init__(self) -> None:
        self._answers: dict[Question, Future[Any]] = {}
        self._guesses: dict[Question, tuple[Any, Future[Any]]] = {}
        """Question → (guess or None, the answer that was asked for)."""
        self._was_right = True
        """Whether the guesses that ended before `confirm` was called were the answers."""

    @contextmanager
    def ahead(
        self,
        questions: Iterable[Question],
        ask: Ask = send_each,
        guess: Callable[[Question], Any] | None = None,
        known: Mapping[Question, Any] = MappingProxyType({}),
    ) -> Iterator[Callable[[], bool]]:
        """Send requests now; within the block, the first `answer` to each is their result.

        Until `confirm`, which is yielded, a question has the answer that `guess` returns, if that
        is not None. Questions of an outer block are not asked twice; its other answers wait for
        its own code. Guesses of an outer block end before other ones begin: its answers are older
        than the snapshot that the new questions are about. Questions with
        `known` answers are not asked.
        """
        outer, guesses = self._answers, self._guesses
        listed = list(dict.fromkeys(questions))
        if guess is not None and not guesses:
            self._was_right = True
        elif guess is not None and not guesses.keys() >= set(listed):
            guesses, self._was_right = {}, self.confirm()
        listed = [each for each in listed if each not in guesses]
        fresh = ask([question for question in listed if question not in outer])
        sent = {each: fresh[each] if each in fresh else outer.pop(each) for each in listed}
        own = {} if guess is None else {each: (guess(each), sent[each]) for each in listed}
        own |= {each: (content, _AS_KNOWN) for each, content in known.items()}
        self._answers = {} if guess is not None else sent
        self._guesses = {**own, **guesses}
        try:
            yield self.confirm
        finally:
            self._answers = outer
            self._guesses = guesses if self._guesses else {}

    def confirm(self) -> bool:
        """Whether all guesses of this thread are the answers; from now on nothing is guessed."""
        guesses, self._guesses = self._guesses, {}
        was_right, self._was_right = self._was_right, True
        wait([sent for _, sent in guesses.values()])
        return was_right and all(_is_answer(known, sent) for known, sent in guesses.values())

    def answer(self, asked: Callable[..., Any], path: str, ask: Callable[[str], T]) -> T:
        """Return the result of an early request about a path, or send it now."""
        known, guessed = self._guesses.get((asked, path), (None, None))
        if guessed is not None:
            if isinstance(known, NotFoundError):
                raise known
            result: T = guessed.result() if known is None else known
            return result
        sent = self._answers.pop((asked, path), None)
        answer: T = ask(path) if sent is None else sent.result()
        return answer

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let the writes of the block go side by side; the block ends when all have.

        The end of an inner block ends the outer one, too, so no file is published before those
        that it names are there.

        Raises:
            PaimonError: The first error of a write; all writes have ended.
        """
        _WRITES.sent = _WRITES.sent or []
        try:
            yield
        finally:
            writes, _WRITES.sent = _WRITES.sent or (), None
            wait(writes)
        for write in writes:
            write.result()

    @property
    def is_at_once(self) -> bool:
        """Whether writes of this thread need not end before the next step."""
        return _WRITES.sent is not None

    def wait_for_writes(self) -> None:
        """Wait until the writes of this thread have ended, in whatever way."""
        wait(_WRITES.sent or ())

    def write(self, put: Callable[[str, bytes], None], path: str, data: bytes) -> None:
        """Write now, or together with the other writes of the block."""
        if _WRITES.sent is not None:
            _WRITES.sent.append(send(put, path, data))
        else:
            put(path, data)
