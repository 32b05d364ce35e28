"""Threads: work is made once, by whoever is free, and never by more threads than were given."""

import gc
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pyarrow as pa
import pytest

from paimon_assets import EmbeddedExecutor, Schema, open_catalog
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads, Work


@pytest.mark.parametrize("threads", [CALLER_ONLY, Threads(2)])
def test_nested_work_ends(threads):
    def count(depth):
        below = [threads.submit(count, depth - 1) for _ in range(3)] if depth else []
        return 1 + sum(work.result() for work in below)

    assert threads.submit(count, 4).result() == 121


def test_caller_runs_work_without_threads():
    assert CALLER_ONLY.submit(threading.get_ident).result() == threading.get_ident()


def test_repeated_calls_get_same_answer_or_error():
    answers = iter([1, 2])
    work = Work(lambda: next(answers))
    assert (work.result(), work.result()) == (1, 1)
    broken = Threads(2).submit(int, "x")
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            broken.result()


def test_stopped_or_dropped_work_does_not_start():
    threads, held, called = Threads(2), threading.Event(), []
    blockers = [threads.submit(held.wait, 60) for _ in range(2)]
    stopped, dropped = threads.submit(called.append, 1), threads.submit(called.append, 2)
    stopped.stop()
    del dropped
    gc.collect()
    held.set()
    assert all(work.result() for work in blockers)
    assert threads.submit(len, called).result() == 0
    with pytest.raises(CancelledError):
        stopped.result()


def test_running_work_is_awaited():
    threads, begun, go_on = Threads(2), threading.Event(), threading.Event()
    ended = []

    def run():
        begun.set()
        go_on.wait(60)
        ended.append(1)

    work = threads.submit(run)
    assert begun.wait(60)
    threading.Timer(0.01, go_on.set).start()
    work.stop()
    assert ended == [1]


def test_reads_side_by_side_share_threads_of_their_executor(tmp_path):
    catalog = open_catalog(str(tmp_path))
    catalog.create_database("d")
    options = {"bucket": "3", "read.batch-size": "50"}
    writer, executor, tables = EmbeddedExecutor(1), EmbeddedExecutor(threads=3), []
    for number in range(4):
        schema = Schema.of({"k": "INT", "v": "INT"}, primary_keys=["k"], options=options)
        table = catalog.create_table(f"d.t{number}", schema)
        for start in (0, 300):
            keys = pa.array(range(start, start + 600), pa.int32())
            table.new_write_builder().write(pa.table({"k": keys, "v": keys}), writer)
        tables.append(table)
    before, seen = threading.active_count(), []

    def read(table):
        rows = 0
        for batch in table.new_read_builder().to_reader(executor):
            rows += batch.num_rows
            seen.append(threading.active_count())
        return rows

    with ThreadPoolExecutor(4) as readers:
        assert list(readers.map(read, tables)) == [900] * 4
    assert len(seen) > 8
    assert max(seen) <= before + 4 + 3, "four readers, and the executor's"
