"""The picture of a table's levels and file sizes."""

from paimon_assets.assets.jobs.table_picture import levels_table, size_counts, size_text, svg
from paimon_assets.engine.table.system.table_health import BucketShape, RunShape, TableShape


def shape(*levels):
    runs = tuple(
        RunShape(level=level, file_count=1, total_bytes=1000 * (level + 1), row_count=10)
        for level in levels
    )
    bucket = BucketShape(
        partition=b"", bucket=0, runs=runs, fewest_runs=1, small_files=0, deleted_rows=0
    )
    sizes = tuple(run.total_bytes for run in runs)
    return TableShape(has_key=True, target_bytes=1 << 27, buckets=(bucket,), file_sizes=sizes)


def test_runs_are_segments_of_their_level():
    drawn = svg({"now": shape(0, 0, 0, 5)})
    assert drawn.count("#e07a5f") == 3
    assert drawn.count("#3d7ea6") == 1
    assert "3 runs, 3 files, 2.9 KB" in drawn


def test_very_many_runs_are_one_bar():
    drawn = svg({"before": shape(*[0] * 5_000), "after": shape(5)})
    assert drawn.count("#e07a5f") == 1
    assert len(drawn) < 20_000


def test_titles_are_escaped():
    assert "&lt;b&gt;" in svg({"<b>": shape(0)})


def test_table_without_files_has_picture():
    empty = TableShape(has_key=True, target_bytes=1)
    assert "0 files, 0 B" in svg({"now": empty})
    assert levels_table({"now": empty}).records[0].data["runs"] == 0


def test_sizes_are_counted_once():
    sizes = [0, 16 * 1024 - 1, 16 * 1024, 5 << 20, 1 << 40]
    assert sum(size_counts(sizes).values()) == len(sizes)
    assert size_counts(sizes)["≥ 512 MB"] == 1
    assert size_text(1 << 40) == "1 TB"
