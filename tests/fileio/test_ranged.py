"""Files of an object store, read by ranges."""

import random
from concurrent.futures import Future

import pyarrow as pa
import pytest

from paimon_assets.engine.fileio.base import ChangedFileError
from paimon_assets.engine.fileio.ranged import WINDOW, KeptEnds, RangedFile

MIB = 1024 * 1024


def ranged_file(size, short=0):
    data = random.Random(size).randbytes(size)  # noqa: S311
    requests = []

    def fetch(start, end):
        requests.append((start, end))
        return pa.py_buffer(data[start : min(end, size - short)])

    return RangedFile(fetch, size), data, requests


def read(file, start, end):
    file.seek(start)
    return file.read(end - start)


def test_small_file_is_one_request():
    file, data, requests = ranged_file(200_000)
    assert read(file, 0, 10) == data[:10]
    assert read(file, 150_000, 200_000) == data[150_000:]
    assert file.read() == b""
    assert requests == [(0, 200_000)]


def test_near_planned_ranges_are_one_request():
    file, data, requests = ranged_file(4 * MIB)
    file.plan([(0, 1000), (2000, 3000), (2 * MIB, 2 * MIB + 500)])
    assert read(file, 2000, 3000) == data[2000:3000]
    assert read(file, 0, 1000) == data[:1000]
    assert read(file, 2 * MIB, 2 * MIB + 500) == data[2 * MIB : 2 * MIB + 500]
    assert sorted(requests) == [(0, 3000), (2 * MIB, 2 * MIB + 500)]


def test_long_range_is_fetched_in_pieces():
    file, data, requests = ranged_file(8 * MIB)
    file.plan([(100, 5 * MIB)], MIB)
    assert read(file, 100, 5 * MIB) == data[100 : 5 * MIB]
    assert max(end - start for start, end in requests) == MIB


def test_without_plan_blocks_grow_with_read():
    file, data, requests = ranged_file(20 * MIB)
    assert b"".join([file.read(100_000) for _ in range(20 * MIB // 100_000 + 1)]) == data
    assert len(requests) < 15


@pytest.mark.parametrize("seed", range(20))
def test_any_reads_under_any_plan_give_bytes(seed):
    draw = random.Random(seed)  # noqa: S311
    size = draw.choice([1, 1000, 256 * 1024, 256 * 1024 + 1, 3 * MIB])
    file, data, _ = ranged_file(size)

    def one():
        start, end = sorted(draw.randrange(size + 1) for _ in range(2))
        return start, end

    for _ in range(5):
        file.plan([one() for _ in range(draw.randrange(6))], draw.choice([1000, 100_000, MIB]))
        for _ in range(30):
            start, end = one()
            assert read(file, start, end) == data[start:end]


def test_file_shorter_than_its_size_returns_its_bytes():
    file, data, _ = ranged_file(300_000, short=100)
    assert read(file, 299_000, 300_000) == data[299_000:299_900]


def test_first_range_sent_is_not_requested_again():
    file, data, requests = ranged_file(4 * MIB)
    ranges = [(0, 1000), (2 * MIB, 2 * MIB + 500)]
    file.plan(ranges)
    file.send_first()
    for _ in range(2):
        file.plan(ranges)
        for start, end in ranges:
            assert read(file, start, end) == data[start:end]
        assert len(requests) == 2
        requests.clear()


def test_file_ends_are_cached_until_evicted():
    ends, end = KeptEnds(130 * 1024), Future()
    for size in (60 * 1024, 64 * 1024):
        ends.put(((), "a", size), end)
    assert ends.get(((), "a", 60 * 1024)) is end
    ends.put(((), "b", 100), end)
    ends.put(((), "c", 1024 * MIB), end)  # 64 KiB of it
    assert ends.get(((), "a", 64 * 1024)) is None
    assert ends.get(((), "a", 60 * 1024)) is end
    assert ends.get(((), "b", 100)) is end


def test_failed_file_end_is_requested_again():
    ends, end = KeptEnds(MIB), Future()
    ends.put(((), "a", 1), end)
    end.set_exception(OSError("refused"))
    assert ends.get(((), "a", 1)) is None


def test_sequential_read_uses_large_pieces_once():
    file, data, requests = ranged_file(20 * MIB)
    file.read_through()
    file.send_first()
    assert b"".join(iter(lambda: file.read(99_999), b"")) == data
    assert sorted(requests) == [(0, 8 * MIB), (8 * MIB, 16 * MIB), (16 * MIB, 20 * MIB)]


def test_cached_bytes_are_not_planned_again():
    file, data, requests = ranged_file(4 * MIB)
    file.keep([(MIB, MIB + 100)])
    for _ in range(2):
        assert read(file, MIB, MIB + 100) == data[MIB : MIB + 100]
    file.plan([(0, 100), (MIB, MIB + 100)])
    assert read(file, MIB - 10, MIB + 110) == data[MIB - 10 : MIB + 110]
    assert requests.count((MIB, MIB + 100)) == 1


def test_files_request_ahead_only_their_part_of_window():
    before, files = WINDOW._bytes, [ranged_file(20 * MIB)[0] for _ in range(5)]
    for file in files:
        file.limit(before + 5 * MIB, 2 * MIB)
        file.plan([(0, 16 * MIB)], MIB)
        file.send_first()
    assert WINDOW._bytes - before == 5 * MIB
    assert len(read(files[4], 0, 3 * MIB)) == 3 * MIB  # needed bytes are read without room, too
    for file in files:
        file.close()
    assert WINDOW._bytes == before


def test_storage_failure_hidden_by_library_is_raised():
    def fetch(start, end):
        raise ChangedFileError(7, 8)

    file = RangedFile(fetch, 300_000)
    with pytest.raises(ChangedFileError):
        file.read(1)
    assert isinstance(file.failure, ChangedFileError)
