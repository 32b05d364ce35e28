"""Requests side by side: answers asked for ahead, and writes that go up together."""

import threading

import pytest

from paimon_assets.engine.errors import StorageError
from paimon_assets.engine.fileio.parallel_requests import Together


def test_prefetched_answer_is_used_once_inside_block():
    together, asked, last = Together(), [], threading.Event()

    def ask(path):
        asked.append(path)
        if path == "b":
            last.set()
        return path

    def counts():
        return asked.count("a"), asked.count("b")

    with together.ahead([(ask, "a"), (ask, "b")]):
        assert last.wait(10)
        assert together.answer(ask, "a", ask) == "a"
        assert asked.count("a") == 1
        assert together.answer(ask, "a", ask) == "a"
        with together.ahead([]):
            assert together.answer(ask, "b", ask) == "b"
    assert together.answer(ask, "b", ask) == "b"
    assert counts() == (2, 3)


def test_requests_run_in_order():
    together, meeting = Together(), threading.Barrier(3, timeout=10)
    with together.ahead([(lambda _: meeting.wait(), name) for name in "abc"]):
        pass
    # All three threads met: none of the questions had to wait for another's answer.
    assert not meeting.broken


def test_error_is_raised_when_answer_is_used():
    together = Together()

    def fail(path):
        raise StorageError(f"no {path}")

    with together.ahead([(fail, "a")]), pytest.raises(StorageError, match="no a"):
        together.answer(fail, "a", fail)


def test_writes_end_before_their_block():
    together, written = Together(), {}
    with together.at_once():
        for name in "abc":
            together.write(written.__setitem__, name, b"x")
    assert written == dict.fromkeys("abc", b"x")


def test_failed_write_is_raised_after_all_writes_ended():
    together, written = Together(), []

    def put(path, data):
        if path == "a":
            raise StorageError("full")
        written.append(path)

    def put_all():
        with together.at_once():
            for name in "abc":
                together.write(put, name, b"")

    with pytest.raises(StorageError, match="full"):
        put_all()
    assert sorted(written) == ["b", "c"]


def test_writes_after_inner_block_run_at_once():
    together, written = Together(), {}
    with together.at_once():
        together.write(written.__setitem__, "outer", b"x")
        with together.at_once():
            together.write(written.__setitem__, "inner", b"x")
        assert {*written} == {"outer", "inner"}
        together.write(written.__setitem__, "after", b"x")
        assert "after" in written
    assert not together.is_at_once


@pytest.mark.parametrize("answer", ["as before", "another", StorageError("no answer")])
def test_guess_is_used_first_and_verified_later(answer):
    together, answers = Together(), threading.Event()

    def ask(_):
        assert answers.wait(10)
        if isinstance(answer, StorageError):
            raise answer
        return answer

    with together.ahead([(ask, "a"), (ask, "b")], guess={(ask, "a"): "as before"}.get) as confirm:
        for _ in range(2):
            assert together.answer(ask, "a", ask) == "as before"
        with together.ahead([(ask, "a")]):
            assert together.answer(ask, "a", ask) == "as before"
        answers.set()
        assert confirm() is (answer == "as before")
        assert confirm()  # nothing is guessed any more
        if answer == "another":
            assert together.answer(ask, "a", ask) == together.answer(ask, "b", ask) == "another"


def test_guesses_end_with_block_or_next_guess():
    together = Together()
    with together.ahead([(str, "a")], guess=lambda _: "guess") as confirm:
        assert together.answer(str, "a", str) == "guess"
        with together.ahead([(str, "b")], guess=lambda _: "guess"):
            assert together.answer(str, "b", str) == "guess"
            assert together.answer(str, "a", str) == "a"
        assert together.answer(str, "b", str) == "b"
        assert not confirm()
    assert together.answer(str, "a", str) == "a"


def test_known_content_is_not_asked_for():
    together, asked = Together(), []

    def ask(path):
        asked.append(path)
        return path

    known = {(ask, "a"): "old"}
    with together.ahead([(ask, "b")], guess=lambda _: None, known=known) as confirm:
        assert [together.answer(ask, path, ask) for path in "abab"] == ["old", "b", "old", "b"]
        assert asked == ["b"]
        assert confirm()
    assert together.answer(ask, "a", ask) == "a"
