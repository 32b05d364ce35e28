"""Tables of every merge engine, written in several commits and read, against plain merging."""

import tempfile
from decimal import Decimal

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets import InvalidInputError, Schema
from paimon_assets.engine.contract.report_tasks import COVERED_TASK, row_starts
from paimon_assets.engine.contract.wire import dump, dump_split
from paimon_assets.engine.data.threads import CALLER_ONLY
from paimon_assets.engine.data.worker import run_task
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.merge.merge_rules import merge_rules_of
from paimon_assets.engine.spec.types.data_types import RowKind
from tests.testkit.effort import often
from tests.testkit.merge_model import MergeModel, NotRetractableError
from tests.testkit.model import parse_row_kind
from tests.testkit.tables import compact, new_catalog_in, read_dicts, write

INTS = st.none() | st.integers(-2, 2)
COLUMNS = {
    "k": "INT",
    "op": "STRING",
    "t": "INT",
    "s": "INT",
    "a": "INT",
    "b": "STRING",
    "c": "ARRAY<INT>",
}
SUM_AND_MORE = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "listagg",
    "fields.b.ignore-retract": "true",
    "fields.c.aggregate-function": "collect",
}
PARTIAL = {"merge-engine": "partial-update"}
GROUPED = {**PARTIAL, "fields.s.sequence-group": "a,b,c", "fields.c.aggregate-function": "collect"}
ENGINES = {
    "aggregation": SUM_AND_MORE,
    "aggregation in order of t": {**SUM_AND_MORE, "sequence.field": "t"},
    "aggregation, newest t first": {
        **SUM_AND_MORE,
        "sequence.field": "t",
        "sequence.field.sort-order": "descending",
    },
    "partial update, deletes ignored": {**PARTIAL, "ignore-delete": "true"},
    "partial update, deletes remove": {
        **PARTIAL,
        "partial-update.remove-record-on-delete": "true",
        "sequence.field": "t",
    },
    "partial update, groups": GROUPED,
    "partial update, group removes": {
        **GROUPED,
        "partial-update.remove-record-on-sequence-group": "s",
    },
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.integers(0, 4),
            "op": st.sampled_from(["+I", "+I", "+U", "-U", "-D"]),
            "t": INTS,
            "s": INTS,
            "a": INTS,
            "b": st.none() | st.sampled_from(["x", "y"]),
            "c": st.none() | st.lists(st.integers(0, 2), max_size=2),
        }
    ),
    max_size=8,
)


def new_table(path, options):
    catalog = new_catalog_in(path, "d")
    settled = {"bucket": "2", "rowkind.field": "op", "read.batch-size": "2", **options}
    return catalog.create_table("d.t", Schema.of(COLUMNS, primary_keys=["k"], options=settled))


class PlainTable:
    """Commits of a table as lists of merged records; reads merge these lists."""

    def __init__(self, schema):
        self.schema = schema
        self.rules = merge_rules_of(schema)
        self.model = MergeModel(self.rules, schema.fields)
        self.fields = [name for name in schema.options.get("sequence.field", "").split(",") if name]
        self.descending = "sequence.field.sort-order" in schema.options
        self.commits = []

    def write(self, rows):
        records = [(parse_row_kind(row["op"]), row) for row in rows]
        if self.rules.ignore_delete:
            records = [record for record in records if record[0].is_add]
        self.commits.append(self._merge(records))

    def rows(self):
        found = self._merge([record for commit in self.commits for record in commit])
        return [row for kind, row in found if kind.is_add]

    def _merge(self, records):
        keys = {}
        for record in records:
            keys.setdefault(record[1]["k"], []).append(record)
        return [self.model.merge(sorted(keys[key], key=self._order)) for key in sorted(keys)]

    def _order(self, record):
        values = [record[1][name] for name in self.fields]
        sign = -1 if self.descending else 1
        return [(value is not None, sign * (value or 0)) for value in values]


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=often(12))
@given(commits=st.lists(ROWS, min_size=1, max_size=4), subset=st.sets(st.sampled_from("tsabc")))
def test_table_holds_merge_of_its_commits(engine, commits, subset):
    with tempfile.TemporaryDirectory() as path:
        table = new_table(path, ENGINES[engine])
        plain = PlainTable(table.schema)
        for rows in commits:
            write(table, *rows)
            plain.write(rows)
        expected = plain.rows()
        assert sorted(read_dicts(table), key=lambda row: row["k"]) == expected
        # Fewer columns change nothing, whatever orders or removes the rows.
        columns = ["k", *sorted(subset)]
        found = sorted(read_dicts(table, columns), key=lambda row: row["k"])
        assert found == [{name: row[name] for name in columns} for row in expected]


DEDUPLICATES = {
    "by age": {},
    "deletes ignored": {"ignore-delete": "true"},
    "in order of t": {"sequence.field": "t"},
    "newest t first": {"sequence.field": "t", "sequence.field.sort-order": "descending"},
    "vectors": {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
}


@pytest.mark.parametrize("kind", DEDUPLICATES)
@settings(max_examples=often(12))
@given(commits=st.lists(ROWS, min_size=1, max_size=4), compacts=st.sets(st.integers(0, 3)))
def test_uncovered_files_have_rows_of_table(kind, commits, compacts):
    with tempfile.TemporaryDirectory() as path:
        table = new_table(path, DEDUPLICATES[kind])
        for number, rows in enumerate(commits):
            write(table, *rows)
            if number in compacts:
                compact(table, "minor" if number % 2 else "full")
        plan = table.new_read_builder().plan()
        live = []
        for split in plan.splits:
            payload, context = dump_split(split), dump(plan.context)
            file_io = open_file_io(plan.context.file_io)
            answer = run_task(COVERED_TASK, context, payload, file_io, CALLER_ONLY)
            bits = np.unpackbits(np.frombuffer(answer, np.uint8), bitorder="little")
            for file, start in zip(split.data_files, row_starts(split.data_files), strict=False):
                stored = pq.ParquetFile(split.path_of(file)).read(list(COLUMNS)).to_pylist()
                live += [row for row, bit in zip(stored, bits[start:], strict=False) if not bit]
        live.sort(key=lambda row: row["k"])
        assert live == sorted(read_dicts(table), key=lambda row: row["k"])


def test_unsupported_delete_is_refused_when_read(tmp_path):
    table = new_table(str(tmp_path), PARTIAL)
    row = {"k": 1, "op": "+I", "t": 1, "s": 1, "a": 1, "b": None, "c": None}
    with pytest.raises(InvalidInputError, match="partial-update") as caught:
        write(table, row, {**row, "op": "-D"})
    assert caught.value.kind == "retraction"
    write(table, row)
    write(table, {**row, "op": "-D"})
    with pytest.raises(InvalidInputError, match="ignore-delete"):
        read_dicts(table)


def test_first_row_table_shows_rows_after_compaction(tmp_path):
    waiting = new_table(str(tmp_path), {"merge-engine": "first-row"})
    row = {"k": 1, "op": "+I", "t": 1, "s": 1, "a": 1, "b": None, "c": None}
    write(waiting, {**row, "a": 7}, {**row, "a": 8})
    (entry,) = waiting.state.live_files()
    assert entry.file.row_count == 1
    # New rows are not seen before a compaction has compared them with the older ones.
    assert read_dicts(waiting) == []
    waiting.new_compaction_builder().run()
    assert read_dicts(waiting) == [{**row, "a": 7}]
    write(waiting, {**row, "a": 9})
    waiting.new_compaction_builder().run()
    assert read_dicts(waiting) == [{**row, "a": 7}]


@pytest.mark.parametrize("kind", [RowKind.UPDATE_AFTER, RowKind.DELETE])
def test_kind_of_single_record_is_kept(tmp_path, kind):
    table = new_table(str(tmp_path), SUM_AND_MORE)
    row = {"k": 1, "op": kind.short_text, "t": 1, "s": 1, "a": 1, "b": None, "c": None}
    write(table, row)
    (entry,) = table.state.live_files()
    assert entry.file.delete_row_count == (0 if kind.is_add else 1)
    assert read_dicts(table) == ([row] if kind.is_add else [])
    if kind is RowKind.DELETE:
        write(table, {**row, "op": "+I", "a": 5})
        assert [found["a"] for found in read_dicts(table)] == [4]


def test_model_refuses_same_retractions(tmp_path):
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "max"}
    plain = PlainTable(new_table(str(tmp_path), options).schema)
    row = {"k": 1, "op": "+I", "t": 1, "s": 1, "a": 1, "b": None, "c": None}
    with pytest.raises(NotRetractableError):
        plain.write([row, {**row, "op": "-D"}])


@pytest.mark.parametrize(
    ("file_format", "compacted"),
    [("parquet", Decimal("100.00")), ("orc", Decimal("100.00")), ("avro", None)],
)
def test_decimal_sum_beyond_its_precision_after_compaction(tmp_path, file_format, compacted):
    """Only Avro's readers check the precision, here as in Java."""
    schema = Schema.of(
        {"k": "INT", "v": "DECIMAL(4, 2)"},
        primary_keys=["k"],
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "file.format": file_format,
        },
    )
    table = new_catalog_in(tmp_path, "d").create_table("d.t", schema)
    for number in ("99.99", "0.01"):
        write(table, {"k": 1, "v": Decimal(number)})
    before = read_dicts(table)
    table.new_compaction_builder().with_strategy("full").run()
    assert before == [{"k": 1, "v": Decimal("100.00")}]
    assert read_dicts(table) == [{"k": 1, "v": compacted}]
