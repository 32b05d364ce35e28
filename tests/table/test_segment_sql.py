"""Segments in SQL: the words of ADD SEGMENT, SHOW SEGMENTS and DELETE … SEGMENT."""

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.segments.segment_sql import (
    AddSegment,
    DeleteSegments,
    ShowSegments,
    parse_statement,
)


def test_segments_are_added_shown_and_deleted_by_statements(catalog, tmp_path):
    catalog.create_table("db.t", Schema.of({"a": "INT", "s": "STRING"}))
    folder = tmp_path / "it's"
    folder.mkdir()
    (folder / "1").write_text("1;'x;y'\n")
    quoted = str(folder).replace("'", "''")
    added = catalog.execute(
        f"alter table `db`.t Add Segment options('PATH'='{quoted}', 'format'='CSV',"
        r" 'sep'=';', header=false, 'quote'='\'');"
    )
    assert added.column("ID").to_pylist() == ["0"]
    assert catalog.get_table("db.t").new_read_builder().to_arrow().to_pylist() == [
        {"a": 1, "s": "x;y"}
    ]
    [shown] = catalog.execute("SHOW SEGMENTS FOR TABLE db.t LIMIT 5").to_pylist()
    assert (shown["File Format"], shown["Path"]) == ("csv", f"file:{folder}")
    assert shown["Options"] == "sep=;, header=false, quote='"
    assert shown["Load Start Time"].endswith(" UTC")
    gone = catalog.execute("DELETE FROM TABLE db.t WHERE SEGMENT.ID IN (0)").to_pylist()
    assert [row["Status"] for row in gone] == ["Marked for Delete"]
    assert catalog.get_table("db.t").new_read_builder().to_arrow().num_rows == 0


def test_segments_that_are_over_are_shown_and_cleaned_by_statements(catalog, tmp_path):
    catalog.create_table("db.t", Schema.of({"value": "STRING"}))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1").write_text("x")
        options = f"'path'='{tmp_path}/{name}', 'format'='text'"
        catalog.execute(f"ALTER TABLE db.t ADD SEGMENT OPTIONS({options})")
    catalog.execute("DELETE FROM TABLE db.t WHERE SEGMENT.ID IN (0)")
    shown = catalog.execute("show history segments on db.t").to_pylist()
    assert [(row["ID"], row["Visibility"], row["Merged To"]) for row in shown] == [
        ("1", "true", "NA"),
        ("0", "false", "NA"),
    ]
    ask = "CLEAN FILES FOR TABLE db.t"
    assert catalog.execute(ask).num_rows == 0
    for options in ("options('Force'='true', 'dryrun'='TRUE')", "OPTIONS(force=true);"):
        assert catalog.execute(f"{ask} {options}").column("ID").to_pylist() == ["0"]
    assert catalog.execute(f"{ask} OPTIONS('force'='true')").num_rows == 0
    assert catalog.execute("SHOW SEGMENTS FOR TABLE db.t").column("ID").to_pylist() == ["1"]
    assert (tmp_path / "a" / "1").read_text() == "x"


def test_the_table_of_segments_has_their_options(catalog, tmp_path):
    table = catalog.create_table("db.t", Schema.of({"value": "STRING"}))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text("a|b")
    options = f"'path'='{tmp_path}/in', 'format'='text', 'lineSep'='|'"
    catalog.execute(f"ALTER TABLE db.t ADD SEGMENT OPTIONS({options})")
    [row] = table.system_table("segments").to_arrow().to_pylist()
    assert (row["row_count"], row["options"]) == (2, "lineSep=|")


def test_statements_are_understood_in_their_variants():
    shown = parse_statement("SHOW SEGMENTS ON db.t")
    assert shown == ShowSegments(table="db.t")
    added = parse_statement('ALTER TABLE t ADD SEGMENT OPTIONS("path"="/a", partition = \'d:int\')')
    assert isinstance(added, AddSegment)
    assert (added.source.path, added.source.format) == ("/a", "parquet")
    assert added.source.partition == "d:int"
    before = parse_statement(
        "DELETE FROM TABLE t WHERE SEGMENT.STARTTIME BEFORE '1970-01-01 00:00:02'"
    )
    assert before == DeleteSegments(table="t", before_ms=2000)
    ids = parse_statement("delete from table t where segment.id in (1, '2');")
    assert ids == DeleteSegments(table="t", ids=(1, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DROP TABLE db.t", "Expected ALTER, SHOW, DELETE or CLEAN, found 'DROP'"),
        ("", "found the end"),
        ("ALTER TABLE db.t ADD COLUMN c INT", "Expected ADD SEGMENT, found 'ADD'"),
        ("ALTER TABLE db.t ADD SEGMENT OPTIONS('path' '/a')", "Expected =, found"),
        ("ALTER TABLE db.t ADD SEGMENT OPTIONS('path'='/a', 'PATH'='/b')", "'PATH' once"),
        ("ALTER TABLE db.t ADD SEGMENT OPTIONS('path'='/a)", "Expected a value"),
        ("SHOW SEGMENTS FOR TABLE db.t LIMIT x", "Expected a number, found 'x'"),
        ("SHOW SEGMENTS FOR TABLE db.t; DROP TABLE db.t", "Expected the end, found 'DROP'"),
        ("CLEAN FILES FOR TABLE db.t OPTIONS('segment_ids'='0')", "'dryrun' instead of 'segment_"),
        ("CLEAN FILES FOR TABLE db.t OPTIONS('force'='yes')", "true or false instead of 'yes'"),
        ("DELETE FROM TABLE db.t WHERE a = 1", "Expected WHERE SEGMENT"),
        ("DELETE FROM TABLE db.t WHERE SEGMENT.ID IN ()", "Expected an id"),
        ("DELETE FROM TABLE db.t WHERE SEGMENT.STARTTIME BEFORE 'soon'", "instead of 'soon'"),
    ],
)
def test_other_statements_are_refused_where_they_differ(text, message):
    with pytest.raises(InvalidInputError, match=message) as raised:
        parse_statement(text)
    assert raised.value.kind == "statement"
