"""changelog-producer = input: beside the merged rows, every row as it came."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets.engine.data.write.table_write import write_rows
from paimon_assets.engine.errors import InvalidInputError
from tests.testkit import write_contexts as kit

COLUMNS = {"k": "INT", "seq": "BIGINT", "v": "STRING", "kind": "STRING"}
KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


def logged_schema(**options):
    return kit.key_schema(
        COLUMNS, **{"changelog-producer": "input", "rowkind.field": "kind", **options}
    )


def rows_of(*rows):
    columns = list(zip(*rows, strict=True))
    types = [pa.int32(), pa.int64(), pa.string(), pa.string()]
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], list(COLUMNS))


def logs_of(result):
    return [file for m in result.messages for file in m.data_increment.changelog_files]


ROWS = [
    (2, 1, "a", "+I"),
    (1, 1, "b", "+I"),
    (2, 2, "a", "-U"),
    (2, 3, "c", "+U"),
    (1, 2, "b", "-D"),
    (2, 0, "late", "+U"),
]


def logged_rows(table):
    names = ["k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "v"]
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_every_row_is_logged_by_key_and_unmerged(tmp_path):
    result = kit.write(tmp_path, logged_schema(), rows_of(*ROWS))
    (data,), (log,) = kit.files_of(result), logs_of(result)
    assert log.file_name.startswith("changelog-")
    assert data.file_name.startswith("data-")
    assert (data.row_count, data.delete_row_count) == (2, 1)
    assert (log.row_count, log.delete_row_count, log.level) == (6, 2, 0)
    assert (log.min_sequence_number, log.max_sequence_number) == (0, 5)
    assert (log.min_key, log.max_key) == (data.min_key, data.max_key)
    assert logged_rows(kit.read_file(tmp_path, log.file_name)) == [
        (number, position, KINDS[kind], v)
        for number, position, kind, v in [
            (1, 1, "+I", "b"),
            (1, 4, "-D", "b"),
            (2, 0, "+I", "a"),
            (2, 2, "-U", "a"),
            (2, 3, "+U", "c"),
            (2, 5, "+U", "late"),
        ]
    ]
    assert result.report.rows_written == 2


def test_changelog_is_in_merge_order(tmp_path):
    (log,) = logs_of(
        kit.write(tmp_path, logged_schema(**{"sequence.field": "seq"}), rows_of(*ROWS))
    )
    table = kit.read_file(tmp_path, log.file_name)
    pairs = list(zip(table["k"].to_pylist(), table["seq"].to_pylist(), strict=True))
    assert pairs == sorted(pairs)


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_other_merge_engines_log_input(tmp_path, engine):
    rows = rows_of((1, 1, "a", "+I"), (1, 2, None, "+I"), (1, 3, "c", "+I"))
    (log,) = logs_of(kit.write(tmp_path, logged_schema(**{"merge-engine": engine}), rows))
    assert kit.read_file(tmp_path, log.file_name)["v"].to_pylist() == ["a", None, "c"]


def test_changelog_files_follow_changelog_options(tmp_path):
    options = {
        "changelog-file.prefix": "log-",
        "changelog-file.compression": "gzip",
        "changelog-file.stats-mode": "none",
        "file.compression": "zstd",
    }
    result = kit.write(tmp_path, logged_schema(**options), rows_of(*ROWS))
    (log,) = logs_of(result)
    assert log.file_name.startswith("log-")
    (path,) = tmp_path.rglob(log.file_name)
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "GZIP"
    assert set(log.value_stats.null_counts) == {None}
    (data,) = kit.files_of(result)
    assert None not in data.value_stats.null_counts


def test_changelog_may_have_another_format(tmp_path):
    result = kit.write(tmp_path, logged_schema(**{"changelog-file.format": "avro"}), rows_of(*ROWS))
    assert [file.file_name.rpartition(".")[2] for file in logs_of(result)] == ["avro"]
    assert [file.file_name.rpartition(".")[2] for file in kit.files_of(result)] == ["parquet"]


def test_flushes_log_to_files_of_one_sequence(tmp_path):
    schema = logged_schema(**{"write-buffer-size": "1"})
    batches = rows_of(*ROWS).to_batches(max_chunksize=2)
    result = write_rows(kit.context_of(tmp_path, schema), batches, kit.FILE_IO)
    assert sum(log.row_count for log in logs_of(result)) == 6
    again = kit.write(tmp_path, schema, rows_of(*ROWS[:1]), bucket_states=kit.states(result))
    assert logs_of(again)[0].min_sequence_number == 6


def test_failed_write_leaves_no_changelog(tmp_path):
    bad = rows_of((1, 1, "a", "??"))
    good = rows_of(*ROWS).to_batches()
    schema = logged_schema(**{"write-buffer-size": "1"})
    with pytest.raises(InvalidInputError):
        write_rows(kit.context_of(tmp_path, schema), [*good, *bad.to_batches()], kit.FILE_IO)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
