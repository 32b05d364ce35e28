"""The shape of a table: runs, read amplification, small files and deleted rows, from metadata."""

import numpy as np

from tests.testkit.compacting import compact, create, delete_rows, some_rows, write


def filled(catalog, pieces, options=None, *, keyed=True, **settings):
    table = create(catalog, "t", options, keyed=keyed, **settings)
    rng = np.random.default_rng(0)
    for _ in range(pieces):
        write(table, some_rows(rng, 100, 50, deletes=0.3))
    return table


def test_a_table_without_snapshot_has_no_shape(catalog):
    shape = filled(catalog, 0).state.shape()
    assert (shape.buckets, shape.total_bytes, shape.read_amplification) == ((), 0, 1.0)


def test_each_run_of_a_bucket_counts(catalog):
    table = filled(catalog, 4, {"rowkind.field": "kind"})
    shape = table.state.shape()
    assert (shape.level_0_runs, shape.most_runs, shape.read_amplification) == (4, 4, 4.0)
    assert shape.deleted_rows == sum(e.file.delete_row_count for e in table.state.live_files()) > 0
    compact(table, "full")
    after = table.state.shape()
    assert (after.level_0_runs, after.most_runs, after.read_amplification) == (0, 1, 1.0)
    assert after.deleted_rows == 0
    assert after.total_bytes == sum(entry.file.file_size for entry in table.state.live_files())
    assert table.state.shape(table.snapshot(4)) == shape


def test_files_without_key_count_against_as_many_as_they_fill(catalog):
    table = filled(catalog, 6, keyed=False)
    shape = table.state.shape()
    assert (shape.small_files, shape.level_0_runs, shape.read_amplification) == (6, 0, 6.0)
    tiny = table.copy({"target-file-size": "1 b"}).state.shape()
    assert (tiny.small_files, tiny.read_amplification) == (0, 1.0)
    assert table.state.shape(table.snapshot(4)).small_files == 0


def test_marked_rows_are_deleted_rows(catalog):
    table = filled(catalog, 2, {"deletion-vectors.enabled": "true"}, keyed=False)
    delete_rows(table, {entry.file.file_name: [1, 2, 3] for entry in table.state.live_files()})
    assert table.state.shape().deleted_rows == 6
