"""Merge scenarios M1-M8 of sequence padding, through whole tables."""

import logging

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets import EmbeddedExecutor, InvalidInputError
from tests.testkit.compacting import compact
from tests.testkit.tables import new_catalog_in, new_table

SECOND = 1_685_548_953


def sequence_table(tmp_path, padding, **options):
    catalog = new_catalog_in(tmp_path)
    settings = {
        "bucket": "1",
        "sequence.field": "seq",
        "rowkind.field": "op",
        **({"sequence.auto-padding": padding} if padding else {}),
        **options,
    }
    return new_table(
        catalog,
        {"k": "INT", "seq": "BIGINT", "op": "STRING", "v": "STRING"},
        primary_keys=["k"],
        options=settings,
    )


def write(table, *rows, executor=None):
    """Write (kind, seq, payload[, key]) rows as one commit."""
    columns = {
        "k": pa.array([row[3] if len(row) > 3 else 1 for row in rows], pa.int32()),
        "seq": pa.array([row[1] for row in rows], pa.int64()),
        "op": pa.array([row[0] for row in rows]),
        "v": pa.array([row[2] for row in rows]),
    }
    return table.new_write_builder().write(pa.table(columns), executor or EmbeddedExecutor())


def values(table):
    return table.to_arrow(["v"]).column("v").to_pylist()


@pytest.mark.parametrize("one_commit", [True, False])
@pytest.mark.parametrize(
    ("padding", "rows", "expected"),
    [
        pytest.param("row-kind-flag", [("+U", 10, "new"), ("-U", 10, "old")], ["new"], id="M1"),
        pytest.param(None, [("+U", 10, "new"), ("-U", 10, "old")], [], id="M2"),
        pytest.param("row-kind-flag", [("-U", 10, "old"), ("+U", 10, "new")], ["new"], id="M3"),
        pytest.param("row-kind-flag", [("+U", 10, "a"), ("-D", 11, "a")], [], id="M4"),
        pytest.param(
            "second-to-micro", [("+I", SECOND, "a"), ("+I", SECOND - 1, "b")], ["a"], id="M6"
        ),
        pytest.param(
            "second-to-micro,row-kind-flag",
            [("+U", SECOND, "new"), ("-U", SECOND, "old")],
            [],
            id="M7",
        ),
    ],
)
def test_padding_keeps_promised_row(tmp_path, padding, rows, expected, one_commit):
    table = sequence_table(tmp_path, padding)
    for batch in [rows] if one_commit else [[row] for row in rows]:
        write(table, *batch)
    assert values(table) == expected


def test_m5_counter_continues_over_commits(tmp_path):
    table = sequence_table(tmp_path, "second-to-micro")
    write(table, ("+I", SECOND, "a1"), ("+I", SECOND, "a2"))
    write(table, ("+I", SECOND, "a3"))
    assert values(table) == ["a3"]
    numbers = [entry.file.max_sequence_number for entry in table.state.live_files()]
    assert sorted(numbers) == [SECOND * 1_000_000 + 1, SECOND * 1_000_000 + 2]


OLDER_SECOND = (
    [("+I", SECOND + 5, "other", 2), ("+I", SECOND, "a"), ("+I", SECOND, "b")],
    [("+I", SECOND + 7, "another", 2), ("+I", SECOND, "c")],
    [("+I", SECOND, "d"), ("+I", SECOND - 1, "e")],
)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("compacts", [False, True])
def test_later_write_wins_within_older_second(tmp_path, file_format, compacts):
    table = sequence_table(tmp_path, "second-to-micro", **{"file.format": file_format})
    for rows in OLDER_SECOND:
        write(table, *rows)
        if compacts:
            compact(table)
    assert values(table) == ["d", "another"]


def _spark(request):
    module = pytest.importorskip("paimon_assets.spark.executor", exc_type=ImportError)
    return module.SparkExecutor(request.getfixturevalue("spark"))


@pytest.mark.parametrize("bucket", ["3", "-1", "-2"])
@pytest.mark.parametrize("executor", ["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def test_later_write_wins_in_every_bucket_mode(tmp_path, request, bucket, executor):
    workers = _spark(request) if executor == "spark" else None
    table = sequence_table(tmp_path, "second-to-micro", bucket=bucket)
    commits = (SECOND, range(5, 40)), (SECOND + 5, range(5)), (SECOND, range(5, 40))
    for version, (second, keys) in enumerate((*commits, (SECOND - 1, range(40)))):
        write(table, *(("+I", second, str(version), key) for key in keys), executor=workers)
        if bucket == "-2":
            compact(table)
    assert table.to_arrow().sort_by("k").column("v").to_pylist() == ["1"] * 5 + ["2"] * 35


def test_legacy_counter_continues_from_largest_number_of_bucket(tmp_path):
    legacy = {"sequence.padding.legacy-counter": "true"}
    table = sequence_table(tmp_path, "second-to-micro", **legacy)
    for rows in OLDER_SECOND:
        write(table, *rows)
    assert values(table)[0] == "b"


def test_m8_wrapped_counter_keeps_first_of_1001_and_warns(tmp_path, caplog):
    table = sequence_table(tmp_path, "millis-to-micro")
    rows = [("+I", 7, f"v{n}", n if n < 1000 else 0) for n in range(1001)]
    with caplog.at_level(logging.WARNING):
        outcome = write(table, *rows)
    assert "db.t: 1 rows" in caplog.text
    read = table.to_arrow(["v"], "k = 0")
    # n = 0 and n = 1000 pad to the same number: the wrapped record does not win.
    assert read.column("v").to_pylist() == ["v0"]
    assert outcome.report.sequence_wraps == 1


def test_m8_holds_over_commits_too(tmp_path):
    table = sequence_table(tmp_path, "millis-to-micro")
    write(table, *[("+I", 7, f"v{n}", n) for n in range(1000)])
    write(table, ("+I", 7, "v1000", 0))
    assert table.to_arrow(["v"], "k = 0").column("v").to_pylist() == ["v0"]


def test_layout_without_counter_keeps_later_equal_number(tmp_path):
    table = sequence_table(tmp_path, "row-kind-flag")
    write(table, ("+U", 7, "a"), ("+U", 7, "b"))
    write(table, ("+U", 7, "c"), ("+U", 7, "d"))
    assert values(table) == ["d"]


def test_m8_record_after_wrap_loses(tmp_path):
    table = sequence_table(tmp_path, "millis-to-micro")
    rows = [("+I", 7, f"v{n}", 999 if n == 1001 else n) for n in range(1002)]
    outcome = write(table, *rows)
    assert table.to_arrow(["v"], "k = 999").column("v").to_pylist() == ["v999"]
    assert outcome.report.sequence_wraps == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("+I", None, "a"), "seq"),
        (("+I", 2**62, "a"), "seq"),
        ((None, 1, "a"), "Row kind cannot be null"),
        (("I", 1, "a"), "Unsupported short string 'I'"),
        ((" +I", 1, "a"), "Unsupported short string ' \\+I'"),
    ],
)
def test_invalid_row_commits_nothing(tmp_path, row, message):
    table = sequence_table(tmp_path, "row-kind-flag")
    write(table, ("+I", 1, "before"))
    with pytest.raises(InvalidInputError, match=message):
        write(table, ("+I", 2, "good", 2), row)
    assert values(table) == ["before"]
    assert len(table.snapshots()) == 1


def test_null_in_sequence_column_names_key_of_first_row(tmp_path):
    table = sequence_table(tmp_path, "row-kind-flag")
    rows = [("+I", 1, "a", 6), ("+I", None, "b", 7), ("+I", None, "c", 8)]
    with pytest.raises(InvalidInputError, match="null in 2 of 3 rows, first where k = 7") as raised:
        write(table, *rows)
    assert raised.value.details["first"] == "k = 7"


@pytest.mark.parametrize(
    ("options", "rows", "expected"),
    [
        ({}, [("+I", 1, "a"), ("-D", 2, "a")], []),
        ({"ignore-delete": "true"}, [("+I", 1, "a"), ("-D", 2, "a")], ["a"]),
        ({"ignore-update-before": "true"}, [("+I", 1, "a"), ("-U", 2, "a")], ["a"]),
        ({"ignore-update-before": "true"}, [("+I", 1, "a"), ("-D", 2, "a")], []),
        ({}, [("-U", 1, "a")], []),
        ({}, [("+u", 1, "a")], ["a"]),
        ({}, [("+i", 1, "a")], ["a"]),
    ],
)
def test_row_kinds_add_and_retract(tmp_path, options, rows, expected):
    table = sequence_table(tmp_path, None, **options)
    write(table, *rows)
    assert values(table) == expected


def test_null_sequence_without_padding_loses_to_any_value(tmp_path):
    table = sequence_table(tmp_path, None)
    write(table, ("+I", -5, "kept"))
    write(table, ("+I", None, "lost"))
    assert values(table) == ["kept"]


def test_descending_order_keeps_smallest(tmp_path):
    table = sequence_table(tmp_path, None, **{"sequence.field.sort-order": "descending"})
    write(table, ("+I", 5, "five"), ("+I", 3, "three"), ("+I", 4, "four"))
    write(table, ("+I", 4, "four again"))
    assert values(table) == ["three"]


def test_delete_applies_despite_metadata_without_deletes(tmp_path):
    table = sequence_table(tmp_path, None)
    write(table, ("+I", 1, "a"), ("+I", 1, "b", 2))
    write(table, ("-D", 2, "a"))
    plan = table.new_read_builder().with_columns(["v"]).plan()
    claimed = [
        replace(split, data_files=tuple(f._replace(delete_row_count=0) for f in split.data_files))
        for split in plan.splits
    ]
    read = pa.Table.from_batches(EmbeddedExecutor().map_splits(plan.context, claimed))
    assert read.column("v").to_pylist() == ["b"]
