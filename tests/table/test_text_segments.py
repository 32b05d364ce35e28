"""Segments of csv, json and text, in the words of Spark's readers: `SegmentSource.options`."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_assets.engine.codec import row_files
from paimon_assets.engine.codec.row_files import as_file
from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.data.format import text as text_format
from paimon_assets.engine.data.format import text_streams
from paimon_assets.engine.data.format.external_files import FileKind, open_external_file
from paimon_assets.engine.data.format.text_streams import (
    with_plain_members,
    without_array,
    without_comments,
    without_escapes,
)
from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import RenameColumn, update_column_type
from paimon_assets.engine.spec.segments.text_options import TextOptions
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment, rows, write
from tests.testkit.tables import new_table

COLUMNS = {"a": "INT", "s": "STRING", "d": "DATE", "t": "TIMESTAMP(6)", "n": "DECIMAL(8, 2)"}
_ONE = Retention(min_count=1, max_count=1, time_ms=0, limit=99)
TIME = dt.datetime(2024, 2, 29, 13, 5, 7, 250_000)


def read_back(catalog, folder, text, file_format, columns=None, **options):
    """Import one file and read its rows."""
    data = text if isinstance(text, bytes) else text.encode()
    folder.mkdir()
    (folder / "1").write_bytes(data)
    table = new_table(catalog, columns or COLUMNS)
    add_segment(table, folder, file_format, options=options)
    return [tuple(row.values()) for row in table.to_arrow().to_pylist()]


def test_headerless_csv_of_another_locale_is_read(catalog, tmp_path):
    text = (
        "# exported\n"
        "1;'ä;b';29.02.2024;29.02.2024 13:05:07,250;1234,50\n"
        "2;'two\n# lines';-;-;-\n"
        "# end\n"
    )
    found = read_back(
        catalog, tmp_path / "c", text.encode("latin-1"), "csv",
        sep=";", header="false", quote="'", comment="#", nullValue="-", encoding="ISO-8859-1",
        dateFormat="dd.MM.yyyy", timestampFormat="dd.MM.yyyy HH:mm:ss,SSS", locale="de-DE",
    )  # fmt: skip
    assert found == [
        (1, "ä;b", dt.date(2024, 2, 29), TIME, Decimal("1234.50")),
        (2, "two\n# lines", None, None, None),
    ]


@pytest.mark.parametrize(
    ("column", "pattern", "text"),
    [
        ("DATE", "dd.MM.yyyy", "31.02.2024"),
        ("DATE", "dd.MM.yyyy", "29.02.2023"),
        ("DATE", "yyyyMMdd", "2024229"),
        ("DATE", "dd.MM.yyyy", "28.02.24"),
        ("DATE", "dd.MM.yy", "28.02.4"),
        ("DATE", "dd.MM.yy", "29.02.73"),
        ("TIMESTAMP(3)", "dd.MM.yyyy HH:mm:ss", "31.04.2024 10:00:00"),
        ("TIMESTAMP(3)", "dd.MM.yyyy HH:mm:ss", "30.04.2024 10:00:60"),
        ("TIMESTAMP(3)", "d.M.yyyy HH:mm:ss.SSS", "31.4.2024 10:00:00.000"),
    ],
)
def test_invalid_day_is_refused(catalog, tmp_path, column, pattern, text):
    options = {"dateFormat": pattern, "timestampFormat": pattern}
    with pytest.raises(FormatError, match=f"'{text[:8]}.* is no such time"):
        read_back(catalog, tmp_path / "c", f"a\n{text}\n", "csv", {"a": column}, **options)


def test_excess_digits_of_time_are_refused(catalog, tmp_path):
    pattern = {"timestampFormat": "dd.MM.yyyy HH:mm:ss.SSSSSS"}
    text = "a\n01.01.2024 00:00:00.123000\n"
    found = read_back(catalog, tmp_path / "c", text, "csv", {"a": "TIMESTAMP(3)"}, **pattern)
    assert found == [(dt.datetime(2024, 1, 1, 0, 0, 0, 123_000),)]
    catalog.drop_table("db.t")
    text = text.replace("123000", "123456")
    with pytest.raises(FormatError, match="more digits behind its second"):
        read_back(catalog, tmp_path / "d", text, "csv", {"a": "TIMESTAMP(3)"}, **pattern)


@pytest.mark.parametrize("text", ["29.02.2024", " 29.2.2024", '"29.02.2024"'])
def test_valid_days_are_read_by_pattern(catalog, tmp_path, text):
    found = read_back(catalog, tmp_path / "c", f"a,b\n,1\n{text},2\n", "csv",
                      {"a": "DATE", "b": "INT"}, dateFormat="d.M.yyyy")  # fmt: skip
    assert found == [(None, 1), (dt.date(2024, 2, 29), 2)]


def test_two_digit_years_are_after_2000(catalog, tmp_path):
    text = "a\n01.01.00\n31.12.68\n01.01.69\n29.02.72\n31.12.99\n"
    found = read_back(catalog, tmp_path / "c", text, "csv", {"a": "DATE"}, dateFormat="dd.MM.yy")
    days = [(2000, 1, 1), (2068, 12, 31), (2069, 1, 1), (2072, 2, 29), (2099, 12, 31)]
    assert found == [(dt.date(*day),) for day in days]


def test_columns_of_csv_are_named_by_command(catalog, tmp_path):
    columns = {"a": "INT", "s": "STRING"}
    text = 'x\ty\n"q\\"uote"\t7\n'
    options = {"Delimiter": "\\t", "fileHeader": "s,a", "escape": "\\"}
    assert read_back(catalog, tmp_path / "c", text, "csv", columns, **options) == [(7, 'q"uote')]


def test_headerless_csv_columns_keep_places(catalog, tmp_path):
    read_back(catalog, tmp_path / "c", "1;x\n", "csv", {"a": "INT", "s": "STRING"},
              sep=";", header="false")  # fmt: skip
    catalog.get_table("db.t").alter([RenameColumn(field_names=("s",), new_name="z")])
    assert catalog.get_table("db.t").to_arrow(["z"]).to_pylist() == [{"z": "x"}]


@pytest.mark.parametrize("start", ["", "\n", "\r\n\r\n", "\ufeff\n", "#\n\n#\n"])
def test_given_names_replace_header_behind_blank_lines(catalog, tmp_path, start):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(f"{start}x,y\n\n1,p\n")
    table = new_table(catalog, {"a": "INT", "s": "STRING"})
    add_segment(table, tmp_path / "in", "csv", options={"fileHeader": "a,s", "comment": "#"})
    assert table.to_arrow().to_pylist() == [{"a": 1, "s": "p"}]


@pytest.mark.parametrize(
    ("file_format", "text", "options"),
    [
        ("csv", "1;5\n2;70000\n3;\n", {"sep": ";", "header": "false", "locale": "de-DE"}),
        ("json", '{"a": 1, "n": 5}\n{"a": 2, "n": 70000}\n{"a": 3}\n', {}),
    ],
)
def test_change_that_loses_values_of_text_file_is_refused(
    catalog, tmp_path, file_format, text, options
):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1").write_text(text)
    table = new_table(catalog, {"a": "INT", "n": "INT"})
    add_segment(table, tmp_path / "c", file_format, options=options)
    with refused(InvalidInputError, "70000.* overflows", kind="schema-overflow"):
        table.alter_checked([update_column_type("n", "SMALLINT")])
    [report] = table.alter_checked([update_column_type("n", "BIGINT")]).columns
    assert (report.rows, report.lost) == (3, 0)


def test_drop_of_text_only_partition_is_refused(catalog, tmp_path):
    (tmp_path / "c" / "p=1").mkdir(parents=True)
    (tmp_path / "c" / "p=1" / "1").write_text("a\n1\n")
    table = new_table(catalog, {"a": "INT", "p": "INT"}, partition_keys=["p"])
    add_segment(table, tmp_path / "c", "csv", partition="p:int")
    with refused(UnsupportedFeatureError, kind="segment-mixed-formats"):
        table.delete("p = 1")
    with refused(UnsupportedFeatureError, kind="segment-mixed-formats"):
        catalog.execute("DELETE FROM db.t")


def test_empty_csv_without_header_has_no_rows(catalog, tmp_path):
    assert read_back(catalog, tmp_path / "c", "", "csv", header="false") == []


@pytest.mark.parametrize(("text", "found"), [("\t\n", (None, None)), (" \t \n", (" ", " "))])
def test_row_of_blanks_is_read(catalog, tmp_path, text, found):
    columns, options = {"a": "STRING", "b": "STRING"}, {"header": "false", "sep": "\t"}
    assert read_back(catalog, tmp_path / "c", text, "csv", columns, **options) == [found]


def test_json_in_one_array_over_several_lines_is_read(catalog, tmp_path):
    members = [
        {"a": 1, "s": 'x],{"\\', "t": "2024-02-29T13:05:07.250", "more": [{"y": [1, 2]}]},
        {"a": None, "s": "ü", "d": "20240229"},
    ]
    found = read_back(
        catalog, tmp_path / "j", json.dumps(members, indent=2, ensure_ascii=False).encode("utf-16"),
        "json", multiLine="true", encoding="UTF-16", dateFormat="yyyyMMdd",
        timestampFormat="yyyy-MM-dd'T'HH:mm:ss.SSS",
    )  # fmt: skip
    assert found == [
        (1, 'x],{"\\', None, TIME, None),
        (None, "ü", dt.date(2024, 2, 29), None, None),
    ]


@pytest.mark.parametrize("name", ["csv", "json"])
def test_partition_column_in_file_is_not_parsed(catalog, tmp_path, name):
    (tmp_path / "in" / "p=1").mkdir(parents=True)
    text = {"csv": "a,p\n7,none\n", "json": '{"a": 7, "p": {"none": []}}\n'}[name]
    (tmp_path / "in" / "p=1" / "1").write_text(text)
    table = new_table(catalog, {"a": "INT", "p": "INT NOT NULL"}, partition_keys=["p"])
    add_segment(table, tmp_path / "in", name, partition="p:int")
    assert table.to_arrow(where="p = 1").to_pylist() == [{"a": 7, "p": 1}]


def test_text_has_its_own_line_end_and_encoding(catalog, tmp_path):
    text = "ein;zwei\r\n;drei".encode("utf-16-le")
    options = {"lineSep": ";", "encoding": "utf-16-le"}
    found = read_back(catalog, tmp_path / "t", text, "text", {"value": "STRING"}, **options)
    assert found == [("ein",), ("zwei\r\n",), ("drei",)]


def test_time_of_another_pattern_names_file(catalog, tmp_path):
    with pytest.raises(FormatError, match=r"/c/1'.*as CSV"):
        read_back(catalog, tmp_path / "c", "a,s,d,t,n\n1,x,2024-02-29,,\n", "csv",
                  dateFormat="dd.MM.yyyy")  # fmt: skip


def test_unknown_option_is_refused_before_file_is_opened(catalog, tmp_path):
    with pytest.raises(InvalidInputError, match="no option 'mergeSchema'"):
        read_back(catalog, tmp_path / "c", "a", "csv", mergeSchema="true")
    assert catalog.get_table("db.t").segments().listed() == []


def test_refresh_reads_files_as_segment_was_added(catalog, tmp_path):
    read_back(catalog, tmp_path / "c", "1;x\n", "csv", {"a": "INT", "s": "STRING"},
              sep=";", header="false")  # fmt: skip
    (tmp_path / "c" / "1").write_text("1;x\n2;y\n")
    table = catalog.get_table("db.t")
    table.segments().refresh([])
    assert table.to_arrow().num_rows == 2


@pytest.mark.parametrize("name", ["csv", "json", "parquet", "orc", "avro"])
def test_segments_have_no_changelog_in_any_format(catalog, tmp_path, name):
    table = new_table(catalog, {"a": "INT", "b": "STRING"})
    write(tmp_path / "in" / f"1.{name}", rows((7, "x")))
    add_segment(table, tmp_path / "in", name)
    read = table.new_read_builder()
    assert changes(read.between(0, 1, mode="changelog")) == []
    assert changes(read.between(0, 1, mode="delta")) == [(7, "x")]


@pytest.fixture(params=["csv", "json"])
def changing(request, catalog, tmp_path):
    """Return a table of one own row, and a function that adds a segment of one row."""
    name = request.param
    table = new_table(catalog, {"a": "INT", "b": "STRING"}, rows((0, "own")))

    def add(number):
        write(tmp_path / str(number) / f"1.{name}", rows((number, "text")))
        return add_segment(table, tmp_path / str(number), name).segments[0].id

    return table, add


def changes(read):
    return sorted(tuple(row.values()) for row in read.to_arrow().to_pylist())


def test_text_segments_reach_readers_of_changes(changing):
    table, add = changing
    read = table.new_read_builder()
    table.consumers.advance("etl", 2)
    add(7)
    assert changes(read.between(1, 2)) == [(7, "text")]
    assert changes(read.between(0, 2, "diff").with_row_kinds()) == [
        ("+I", 0, "own"),
        ("+I", 7, "text"),
    ]
    plan = read.with_consumer("etl").with_filter("a > 5").plan()
    assert read.read(plan).read_all().to_pylist() == [{"a": 7, "b": "text"}]
    table.new_write_builder().write(rows((1, "own")))
    add(8)
    assert changes(read.with_consumer("etl", start=plan.next_snapshot)) == [(1, "own"), (8, "text")]
    assert sum(split.row_count for split in read.with_consumer("new").plan().splits) == 4


def test_deleted_text_segment_reaches_consumers_as_deletes(changing):
    table, add = changing
    number = add(7)
    table.tags.create("before")
    table.consumers.advance("etl", 3)
    table.segments().delete([number])
    table.tags.create("after")
    read = table.new_read_builder()
    with refused(InvalidInputError, "overwrote rows", kind="consumer-overwrite"):
        read.with_consumer("etl").plan()
    assert changes(read.with_consumer("etl").with_row_kinds()) == [("-D", 7, "text")]
    assert changes(read.between("before", "after").with_row_kinds()) == [("-D", 7, "text")]
    assert read.between(2, 3).plan().skipped_snapshots == (3,)
    assert changes(read.with_consumer("etl", start=2).with_row_kinds()) == []
    add(8)
    assert changes(read.with_consumer("etl").with_row_kinds()) == [
        ("+I", 8, "text"),
        ("-D", 7, "text"),
    ]
    leaving = table.copy({"streaming-read-overwrite": "false"}).new_read_builder()
    assert changes(leaving.with_consumer("etl")) == [(8, "text")]


@pytest.mark.way_out("segment-refreshed")
def test_refresh_of_text_segment_is_refused_to_earlier_readers(changing, tmp_path):
    table, add = changing
    number = add(7)
    table.tags.create("before")
    table.consumers.advance("etl", 3)
    [folder] = [tmp_path / "7"]
    [file] = folder.iterdir()
    write(folder / f"2{file.suffix}", rows((8, "text")))
    table.segments().refresh([number])
    table.tags.create("after")
    read = table.new_read_builder().with_row_kinds()
    for late in (read.with_consumer("etl"), read.between("before", "after")):
        with refused(InvalidInputError, "was refreshed", kind="segment-refreshed"):
            late.plan()
    assert changes(read.with_consumer("etl", start=2)) == [("+I", 7, "text"), ("+I", 8, "text")]
    table.consumers.delete("etl")
    assert len(changes(read.with_consumer("etl"))) == 3


def test_changed_text_file_is_named_to_readers_of_changes(changing, tmp_path):
    table, add = changing
    add(7)
    [file] = (tmp_path / "7").iterdir()
    write(file, rows((7, "text"), (8, "text")))
    with pytest.raises(InvalidInputError, match="external file changed"):
        table.new_read_builder().between(1, 2).plan()


def test_branch_has_text_segments_of_its_start(changing):
    table, add = changing
    number = add(7)
    table.tags.create("fork")
    table.branches.create("b", tag="fork")
    table.branches.create("empty")
    add(8)
    branch, empty = table.at_branch("b"), table.at_branch("empty")
    for _ in range(3):
        branch.new_write_builder().write(rows((1, "branch")))
        empty.new_write_builder().write(rows((1, "branch")))
    for forget in (False, True):
        if forget:
            table.segments().delete([number])
            for each in (branch, empty, table):
                expire_snapshots(each._store, retention=_ONE)
            table.segments().clean(retention_ms=-1)
        assert changes(branch.new_read_builder()) == [(0, "own"), *[(1, "branch")] * 3, (7, "text")]
        assert changes(empty.new_read_builder()) == [(1, "branch")] * 3
    with pytest.raises(UnsupportedFeatureError, match="mixed format"):
        branch.delete("a = 7")


def test_text_segment_partition_is_not_read_from_fallback(catalog, tmp_path):
    table = new_table(catalog, {"a": "INT", "p": "INT"}, partition_keys=["p"])
    table.branches.create("b")
    for value, partition in ((1, 1), (2, 2)):
        data = pa.table(
            {"a": pa.array([value], pa.int32()), "p": pa.array([partition], pa.int32())}
        )
        table.at_branch("b").new_write_builder().write(data)
    write(tmp_path / "in" / "p=1" / "1.csv", pa.table({"a": [7]}))
    add_segment(table, tmp_path / "in", "csv", partition="p:int")
    read = table.copy({"scan.fallback-branch": "b"}).new_read_builder()
    assert changes(read) == [(2, 2), (7, 1)]


INSTANT = dt.datetime(2024, 2, 29, 9, 0, tzinfo=dt.UTC)


def test_json_values_are_parsed_as_by_spark(catalog, tmp_path):
    columns = {"y": "BYTES", "d": "DATE", "m": "MAP<STRING NOT NULL, INT>", "s": "STRING"}
    columns |= {"n": "DECIMAL(8, 2)", "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "f": "BINARY(2)"}
    text = (
        '{"y": "YWI=", "d": "2024-02-29", "m": {"a": 1, "b" : null}, "s": 1.10, "n": "5.25",'
        ' "z": "2024-02-29T10:00:00+01:00", "f": "YWI="}\n'
        '{"y": "", "m": { }, "s":\t{"a": [1, "x\\"y"],\t"m": {"s": 2}} ,'
        ' "z": "2024-02-29 10:00:00"}\n'
        '{"y": "YWJj", "s": "plain \\"{", "m": {"s": 7}}\n'
        '{"y": "YQ==", "s": [1,  2]}\r\n{"s": true}\n\n{"s": null, "m": null}'
    )
    found = read_back(catalog, tmp_path / "j", text, "json", columns, timeZone="Europe/Berlin")
    empty, day, entries = (None,) * 3, dt.date(2024, 2, 29), [("a", 1), ("b", None)]
    assert found == [
        (b"ab", day, entries, "1.10", Decimal("5.25"), INSTANT, b"ab"),
        (b"", None, [], '{"a": [1, "x\\"y"],\t"m": {"s": 2}}', None, INSTANT, None),
        (b"abc", None, [("s", 7)], 'plain "{', *empty),
        (b"a", None, None, "[1,  2]", *empty),
        (None, None, None, "true", *empty),
        (None, None, None, None, *empty),
    ]


def test_late_numbers_among_texts_are_read(catalog, tmp_path, monkeypatch):
    monkeypatch.setattr(text_streams, "BLOCK_BYTES", 512)
    monkeypatch.setattr(text_format, "BLOCK_BYTES", 512)
    lines = [
        json.dumps({"a": n, "s": n if n > 300 and n % 7 == 3 else f'"{n}\\'})
        for n in range(40, 600)
    ]
    for number in (range(300), range(300, 560)):
        text = "\n".join(lines[n] for n in number)
        folder = tmp_path / str(number.start)
        folder.mkdir()
        (folder / "1.json").write_text(text)
    table = new_table(catalog, {"a": "INT", "s": "STRING"})
    for folder in ("0", "300"):
        add_segment(table, tmp_path / folder, "json")
    found = table.to_arrow().to_pylist()
    assert sorted((row["a"], row["s"]) for row in found) == [
        (n, str(n) if n > 300 and n % 7 == 3 else f'"{n}\\') for n in range(40, 600)
    ]


def test_landed_json_is_read_same(tmp_path):
    (tmp_path / "1.json").write_text('{"y": "YWI=", "s": 5, "d": "2024-02-29"}\n')
    columns = pa.schema({"y": pa.binary(), "s": pa.string(), "d": pa.date32()})
    kind, path = FileKind(format="json"), f"{tmp_path}/1.json"
    with open_external_file(LocalFileIO(), path, kind, columns) as file:
        [batch] = file.batches
    assert batch.to_pylist() == [{"y": b"ab", "s": "5", "d": dt.date(2024, 2, 29)}]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("BYTES", '"YQ"'), ("BYTES", '"Y==="'), ("BYTES", '"Y=Q="'), ("BYTES", '"Y!Q="'),
        ("BYTES", '"=YQ="'), ("BIGINT", '"5"'), ("BIGINT", "5.5"), ("DATE", '"x"'),
        ("ARRAY<BYTES>", '["YQ"]'), ("ARRAY<DATE>", "[18262]"), ("TIME(3)", '"24:00:00"'),
    ],
)  # fmt: skip
def test_null_of_spark_is_refused(catalog, tmp_path, column, value):
    with pytest.raises(FormatError, match="/j/1"):
        read_back(catalog, tmp_path / "j", f'{{"c": {value}}}\n', "json", {"c": column})


def test_values_inside_json_columns_are_parsed_as_flat_ones(catalog, tmp_path):
    flat = {"z": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "d": "DATE", "y": "BYTES", "t": "TIME(3)"}
    values = {"z": "29.02.2024 10:00", "d": "29/02/2024", "y": "YWI=", "t": "09:30"}
    wanted = {"z": INSTANT, "d": dt.date(2024, 2, 29), "y": b"ab", "t": dt.time(9, 30)}
    columns, record, expected = {}, {}, []
    for name, kind in flat.items():
        value, want = values[name], wanted[name]
        columns |= {name: kind, f"a{name}": f"ARRAY<{kind}>", f"m{name}": f"MAP<STRING, {kind}>"}
        columns |= {f"r{name}": f"ROW<v {kind}, w ARRAY<{kind}>>"}
        record |= {name: value, f"a{name}": [value, None], f"m{name}": {"k": value}}
        record |= {f"r{name}": {"v": value, "w": [value]}}
        expected += [want, [want, None], [("k", want)], {"v": want, "w": [want]}]
    text = f"{json.dumps(record)}\n{json.dumps(dict.fromkeys(record))}\n"
    options = {"timeZone": "Europe/Berlin", "dateFormat": "dd/MM/yyyy"}
    options |= {"timestampFormat": "dd.MM.yyyy HH:mm"}
    found = read_back(catalog, tmp_path / "j", text, "json", columns, **options)
    assert found == [tuple(expected), (None,) * len(columns)]


@pytest.mark.parametrize("values", [(1, "x"), ([1, "x"],), ({"k": [1]}, {"k": ["x"]}), ("x", {})])
def test_members_that_no_column_has_may_be_of_several_types(catalog, tmp_path, values):
    lines = [json.dumps({"a": n, "extra": value, "s": n}) for n, value in enumerate(values)]
    columns = {"a": "INT", "s": "STRING"}
    found = read_back(catalog, tmp_path / "j", "\n".join(lines), "json", columns)
    assert found == [(n, str(n)) for n in range(len(values))]


@pytest.mark.parametrize("extra", [{}, {"x": "STRING"}, {"x": "INT"}])
def test_repeated_member_is_refused_where_column_takes_it(catalog, tmp_path, extra):
    text = '{"a": 1, "x": 1, "x": {"a": 2}}\n{"x": null, "x": [], "a": 2}\n'
    if extra:
        with pytest.raises(
            FormatError, match=r"x. was specified twice .*an object has each of its members"
        ):
            read_back(catalog, tmp_path / "j", text, "json", {"a": "INT", **extra})
    else:
        found = read_back(catalog, tmp_path / "j", text, "json", {"a": "INT"})
        assert found == [(1,), (2,)]


@pytest.mark.parametrize(
    ("kind", "value"), [("TIME(3)", "09:30:00.1234"), ("TIMESTAMP(3)", "2024-01-01T00:00:00.1234")]
)
def test_lost_digits_of_times_name_column_and_way_out(catalog, tmp_path, kind, value):
    with pytest.raises(FormatError, match=r"column 'c'.* declare the column as STRING"):
        read_back(catalog, tmp_path / "j", f'{{"c": "{value}"}}', "json", {"c": kind})


def test_csv_times_may_have_zone(catalog, tmp_path):
    columns = {"t": "TIMESTAMP(6)", "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    text = (
        "t,z\n2024-02-29T09:00:00Z,2024-02-29T09:00:00Z\n"
        "2024-02-29 10:00:00.0+01:00,2024-02-29 10:00:00\n,\n"
    )
    found = read_back(catalog, tmp_path / "c", text, "csv", columns, timeZone="Europe/Berlin")
    plain = INSTANT.replace(tzinfo=None)
    assert found == [(plain, INSTANT), (plain, INSTANT), (None, None)]
    with pytest.raises(FormatError, match="timeZone"):
        read_again(catalog, tmp_path)
    with pytest.raises(InvalidInputError, match="no such zone"):
        TextOptions.of("csv", {"timeZone": "Mars/North"}, ())


def read_again(catalog, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "1").write_text("z\n2024-02-29T09:00:00\n")
    table = new_table(catalog, {"z": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}, name="db.z")
    add_segment(table, tmp_path / "d", "csv")


JSON = st.recursive(
    st.none() | st.integers(0, 9) | st.text(',{}[]"\\ a', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


class _Pieces:
    """A stream that gives a few bytes at a time."""

    def __init__(self, data, size):
        self._data, self._size = data, size

    def read(self, _):
        piece, self._data = self._data[: self._size], self._data[self._size :]
        return piece


@given(st.lists(st.dictionaries(st.text(max_size=3), JSON, max_size=3)), st.integers(1, 7))
def test_array_objects_are_read_across_blocks(objects, size):
    text = json.dumps(objects)
    lines = as_file(without_array(_Pieces(text.encode(), size))).read(10**6).decode()
    assert [json.loads(line) for line in lines.splitlines() if line.strip()] == objects
    with pytest.raises(pa.ArrowInvalid, match="does not end"):
        as_file(without_array(_Pieces(text[:-1].encode(), size))).read(10**6)


@pytest.mark.parametrize("text", ["[%s, %s]", "%s\n%s", "%s%s"])
def test_objects_of_several_lines_hold_texts_and_maps(catalog, tmp_path, text):
    objects = [
        {"\u00e9": {"a": [1, "x\n"]}, "m": {"k": "1", "\u00fc": None}},
        {"\u00e9": 2, "m": {}},
    ]
    lines = text % tuple(json.dumps(each, indent=1) for each in objects)
    columns = {"\u00e9": "STRING", "m": "MAP<STRING, STRING>"}
    one, two = read_back(catalog, tmp_path / "j", lines, "json", columns, multiLine="true")
    assert json.loads(one[0]) == objects[0]["\u00e9"]
    assert one[1] == [("k", "1"), ("\u00fc", None)]
    assert two == ("2", [])


@pytest.mark.parametrize("block_bytes", range(40, 53))
def test_quoted_line_ends_keep_their_bytes_between_blocks(
    catalog, tmp_path, monkeypatch, block_bytes
):
    for module in (text_streams, text_format, row_files):
        monkeypatch.setattr(module, "BLOCK_BYTES", block_bytes)
    texts = [f"{n}\r\r\n\n" for n in range(9)]
    text = "s\r\n" + "".join(f'"{text}"\r\n' for text in texts)
    found = read_back(catalog, tmp_path / "c", text, "csv", {"s": "STRING"}, multiLine="true")
    assert found == [(text,) for text in texts]


@pytest.mark.parametrize("text", ["5", "true", '[{"s": "x"}, 5]', '{"s": "x"} false'])
def test_values_that_are_no_objects_are_named(catalog, tmp_path, text):
    with refused(FormatError, "a record is an object, not a", kind="format"):
        read_back(catalog, tmp_path / "j", text, "json", {"s": "STRING"}, multiLine="true")


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("lines", [[""], ["", ""], ["a"], ["a", ""], ["a", "b", "c"]])
def test_mark_of_byte_order_is_no_text(catalog, tmp_path, lines, line_end):
    value = {"value": "STRING"}
    for number, mark in enumerate(("", "\ufeff")):
        text = mark + "".join(line + line_end for line in lines)
        found = read_back(catalog, tmp_path / str(number), text, "text", value)
        assert found == [(line,) for line in lines]
        catalog.drop_table("db.t")


@given(st.lists(st.sampled_from(["#c\n", "a\n", '"x\n#y"\n', '"",\n', '#"\n'])), st.integers(1, 7))
def test_csv_comments_are_dropped_and_quoted_lines_kept(lines, size):
    data = "".join(lines).encode()
    stays = "".join(line for line in lines if not line.startswith("#"))
    left = as_file(without_comments(_Pieces(data, size), TextOptions(comment="#"))).read(9999)
    assert left.decode() == stays
    # With CR as line end, and a mark of the byte order.
    data = b"\xef\xbb\xbf" + data.replace(b"\n", b"\r")
    left = as_file(without_comments(_Pieces(data, 9999), TextOptions(comment="#"))).read(9999)
    assert left.decode() == stays.replace("\n", "\r")


@given(
    st.lists(st.dictionaries(st.sampled_from(["ä", 'm"', "é\\"]), JSON), min_size=1),
    st.integers(1, 7),
    st.booleans(),
)
def test_members_become_texts_across_blocks(objects, size, is_ascii):
    data = "\n".join(json.dumps(each, ensure_ascii=is_ascii) for each in objects).encode()
    stream = as_file(with_plain_members(_Pieces(data, size), ["ä"], ['m"']))
    for line, each in zip(stream.read(10**6).decode().split("\n"), objects, strict=True):
        text, entries = each.get("ä"), each.get('m"')
        if "ä" in each and not isinstance(text, str | None):
            text = json.dumps(text, ensure_ascii=is_ascii)
        if isinstance(entries, dict):
            entries = [{"key": key, "value": value} for key, value in entries.items()]
        changed = {"ä": text} if "ä" in each else {}
        changed |= {'m"': entries} if 'm"' in each else {}
        assert json.loads(line) == {**each, **changed}


AS_SPARK = [
    ('"say \\"hi\\""', 'say "hi"'), (r'"a\\b"', "a\\b"), (r'"a\\"', "a\\"), (r'"a\nb"', r"a\nb"),
    (r'"\\\"x"', r'\"x'), (r"C:\new", r"C:\new"), (r'q\"uote', r'q\"uote'), ('a"b', 'a"b'),
    ('5"', '5"'),
    (r"a\\b", r"a\\b"), (r'"a\,b"', r"a\,b"), (r'"x\\\\"', r"x\\"), (r'"\\n"', r"\n"), ("\\", "\\"),
    (r'"\\\\\"q"', r'\\"q'), (r'"a\\c\"d"', r'a\c"d'), (r'"a\""', 'a"'), ('"#x"', "#x"),
]  # fmt: skip
"""Value of a CSV → value that Spark 4 reads with its defaults; multiLine gives the same."""


@pytest.mark.parametrize("escape", [None, "\\", "^"])
def test_escapes_in_csv_are_read_as_spark_reads_them(catalog, tmp_path, escape):
    options = {} if escape is None else {"escape": escape}
    mark = escape or "\\"
    pairs = [(a.replace("\\", mark), b.replace("\\", mark)) for a, b in AS_SPARK]
    lines = [f"{number},{value},z\n" for number, (value, _) in enumerate(pairs)]
    found = read_back(
        catalog, tmp_path / "c", "a,s,e\n" + "".join(lines), "csv",
        {"a": "INT", "s": "STRING", "e": "STRING"}, comment="#", **options,
    )  # fmt: skip
    assert found == [(number, text, "z") for number, (_, text) in enumerate(pairs)]


@pytest.mark.parametrize("escape", ['"', ""])
def test_quotes_are_doubled_only_without_escape(catalog, tmp_path, escape):
    text = 'a,s\n1,"a""b"\n2,"C:\\"\n3,"a\\\\b"\n'
    found = read_back(
        catalog, tmp_path / "c", text, "csv", {"a": "INT", "s": "STRING"}, escape=escape
    )
    assert found == [(1, 'a"b'), (2, "C:\\"), (3, "a\\\\b")]


_CELLS = st.text(st.sampled_from('a\\",\n'), max_size=6)


@given(st.lists(st.lists(_CELLS, min_size=2, max_size=2), min_size=1, max_size=6), st.data())
def test_output_of_spark_is_read_with_any_block_size(rows_, data):
    def quote(cell):
        return '"' + cell.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def bare(cell):
        return all(mark not in cell for mark in ',\n"')

    lines, expected = [], []
    for row in rows_:
        quoted = [not bare(cell) or data.draw(st.booleans()) for cell in row]
        lines.append(",".join(quote(c) if q else c for c, q in zip(row, quoted, strict=True)))
        expected.append(['"' + c.replace('"', '""') + '"' if q else c
                         for c, q in zip(row, quoted, strict=True)])  # fmt: skip
    text = "".join(f"{line}\n" for line in lines).encode()
    size = data.draw(st.integers(1, 9))
    plain = as_file(without_escapes(_Pieces(text, size), TextOptions())).read(10**6).decode()
    assert plain == "".join(f"{','.join(row)}\n" for row in expected)


def test_text_files_have_own_splits(catalog, tmp_path):
    table = new_table(catalog, {"a": "INT", "b": "STRING", "p": "INT"}, partition_keys=["p"])
    for name in ("csv", "parquet", "json"):
        write(tmp_path / name / "p=1" / f"1.{name}", rows((len(name), name)))
        add_segment(table, tmp_path / name, name, partition="p:int")
    plan = table.new_read_builder().plan()
    formats = [{file.file_format for file in split.data_files} for split in plan.splits]
    assert formats == [{"parquet"}, {"csv", "json"}]
    read = table.new_read_builder().read(plan).read_all()
    assert sorted(read.column("b").to_pylist()) == ["csv", "json", "parquet"]
