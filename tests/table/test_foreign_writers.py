"""Files of many writers: each filter finds the same rows with statistics and without them.

`tests/golden/foreign_writers` has files of fastparquet 2026.9, pyorc 0.12 and Spark 4.3; files of
pyarrow, polars and duckdb are written here, and the footers of pyarrow's are edited to be those of
other and older writers.
"""

import base64
import datetime as dt
import io
import math
import struct
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest

from paimon_assets import FormatError, InvalidInputError, open_catalog
from paimon_assets.assets.files.source_files import FileSource, checked_schema, read_files
from paimon_assets.engine.data.read.row_stage import passing_rows
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.predicate import predicate as pred
from tests.testkit import footers
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.foreign import add_segment
from tests.testkit.tables import new_table

_GOLDEN = Path("tests/golden/foreign_writers").resolve()
_REALS = [math.nan, -math.inf, -1.5, -0.0, 0.0, 1.5, math.inf]
_WIDE = Decimal("-9999999999999999999.99")
_UTC = dt.UTC
_LATE = dt.datetime(2024, 2, 29, 1, 2, 3, 456_000)
_EARLY = dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)
_TYPES: dict[str, tuple[str, Any, list[Any]]] = {
    "bo": ("BOOLEAN", pa.bool_(), [True, False]),
    "i1": ("TINYINT", pa.int8(), [-128, -1, 0, 127]),
    "i2": ("SMALLINT", pa.int16(), [-32_768, -1, 0, 32_767]),
    "i4": ("INT", pa.int32(), [-(2**31), -1, 0, 255, 2**31 - 1]),
    "i8": ("BIGINT", pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "f4": ("FLOAT", pa.float32(), _REALS),
    "f8": ("DOUBLE", pa.float64(), _REALS),
    "d5": ("DECIMAL(5, 2)", pa.decimal128(5, 2), [*map(Decimal, ("-999.99", "0", "1.28"))]),
    "d15": ("DECIMAL(15, 2)", pa.decimal128(15, 2), [*map(Decimal, ("-9999.99", "0", "2.56"))]),
    "d30": ("DECIMAL(30, 2)", pa.decimal128(30, 2), [_WIDE, Decimal("-0.01"), Decimal("327.68")]),
    "s": ("STRING", pa.string(), ["", "a", "ab", "z", "é", "zé", "\uffff", "\U0001f600", "a" * 70]),
    "vc": ("VARCHAR(80)", pa.string(), ["", "a", "ab", "b", "é"]),
    "b": ("BYTES", pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff" * 70]),
    "x": ("DATE", pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "t3": ("TIMESTAMP(3)", pa.timestamp("ms"), [_EARLY, _LATE]),
    "t6": ("TIMESTAMP(6)", pa.timestamp("us"), [_EARLY, _LATE]),
    "z6": ("TIMESTAMP_LTZ(6)", pa.timestamp("us", "UTC"),
           [_EARLY.replace(tzinfo=_UTC), _LATE.replace(tzinfo=_UTC)]),
    "tm": ("TIME(3)", pa.time32("ms"), [dt.time(0), dt.time(23, 59, 59, 999_000)]),
}  # fmt: skip
_CREATORS = (
    b"parquet-mr version 1.8.1 (build 4aba4da)", b"parquet-mr version 1.6.0", b"parquet-mr",
    b"parquet-mr version 1.12.3", b"impala version 1.4.0 (build x)", b"parquet-cpp version 1.3.2",
    b"impala version 4.0.0-RELEASE (build 1)", b"DuckDB version v1.1.0", b"parquet-go", b"Velox",
    b"RAPIDS Spark Plugin", b"Trino version 400", b"parquet-rs version 52.0.0", b"",
)  # fmt: skip
_EDITS = ("", "old", "both", "no low", "no high", "no nulls", "none", "NaN", "both NaN", "zero",
          "cut", "swapped", "empty", "only nulls", "-1 nulls", "99 nulls")  # fmt: skip


def _table(draw, names):
    columns = {}
    for name in names:
        _, kind, values = _TYPES[name]
        pool = draw.sample(values, draw.randint(1, min(3, len(values))))
        if values is _REALS:  # which no bounds of pyarrow's name
            pool = [math.nan, *pool[:2]]
        nulls = draw.choice((0, 0.3, 0.3, 1))
        columns[name] = pa.array(
            [None if draw.random() < nulls else draw.choice(pool) for _ in range(7)], kind
        )
    fields = [
        pa.field(name, each.type, nullable=bool(each.null_count) or draw.random() < 0.5)
        for name, each in columns.items()
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _edit(statistics, edit, name, rows=0):
    """Change the bounds of a chunk: 6 and 5 are the lowest and highest, 2 and 1 the old ones."""
    low, high = statistics.get(6), statistics.get(5)
    is_real, form = name in ("f4", "f8"), "<f" if name == "f4" else "<d"
    drops = {"old": (5, 6), "no low": (6,), "no high": (5,), "no nulls": (3,),
             "none": (1, 2, 3, 4, 5, 6)}  # fmt: skip
    if edit in ("old", "both") and low is not None:
        statistics[2], statistics[1] = low, high
    for number in drops.get(edit, ()):
        statistics.pop(number, None)
    if "NaN" in edit and is_real and low is not None:
        statistics[5] = (footers.BINARY, struct.pack(form, math.nan))
        statistics[6] = statistics[5] if "both" in edit else low
    if edit == "zero" and is_real and low is not None:
        for number, sign in ((5, -0.0), (6, 0.0)):
            if struct.unpack(form, statistics[number][1])[0] == 0:
                statistics[number] = (footers.BINARY, struct.pack(form, sign))
    contradictions = {"only nulls": 2 * rows, "-1 nulls": 1, "99 nulls": 2 * 99}
    if edit in contradictions and low is not None:
        statistics[3] = (6, contradictions[edit])
    if edit == "swapped" and low is not None and high is not None:
        statistics[5], statistics[6] = low, high
    if edit == "empty" and name in ("s", "vc", "b") and low is not None:
        statistics[5] = statistics[6] = (footers.BINARY, b"")
    if edit == "cut" and name == "b" and low is not None:
        statistics[6], statistics[8] = (footers.BINARY, low[1][:1]), (2, None)
        above = high[1][:1].rstrip(b"\xff")
        if above != high[1]:
            statistics.pop(5)
        if above and above != high[1]:
            statistics[5], statistics[7] = (footers.BINARY, bytes([above[0] + 1])), (2, None)


def _arrow_parquet(draw, table):
    sink, is_edited = io.BytesIO(), draw.random() < 0.8
    pq.write_table(
        table, sink, version=draw.choice(("1.0", "2.4", "2.6")),
        data_page_version="1.0" if is_edited else "2.0",  # of old writers: other faults
        write_statistics=draw.choice((True, True, False, table.column_names[:1])),
        write_page_index=draw.random() < 0.5, use_dictionary=draw.random() < 0.5,
        row_group_size=draw.choice((1, 2, 100)), store_schema=draw.random() < 0.5,
        store_decimal_as_integer=draw.random() < 0.5,
    )  # fmt: skip

    def change(footer):
        footer[6] = (footers.BINARY, draw.choice(_CREATORS))
        if draw.random() < 0.3:
            footer.pop(7, None)
        for name, groups in footers.parquet_statistics(footer).items():
            edit = draw.choice(_EDITS)
            for group, statistics in zip(footer[4][1][1], groups, strict=True):
                rows = group[3][1] // 2
                _edit(statistics, edit, name, rows)
                if not table.schema.field(name).nullable and draw.random() < 0.5:
                    statistics.clear()
                    statistics[3] = (6, 2 * rows)  # as fastparquet has it

    data = sink.getvalue()
    return footers.change_parquet_footer(data, change) if is_edited else data


def _arrow_orc(draw, table):
    sink = io.BytesIO()
    orc.write_table(
        table, sink, compression=draw.choice(("uncompressed", "zlib", "zstd", "lz4")),
        file_version=draw.choice(("0.11", "0.12")), stripe_size=draw.choice((64, 64 * 2**20)),
        dictionary_key_size_threshold=draw.choice((0.0, 1.0)),
    )  # fmt: skip
    return sink.getvalue()


def _polars(draw, table):
    sink = io.BytesIO()
    statistics: Any = draw.choice((True, False, "full"))
    frame: Any = pl.from_arrow(table)
    frame.write_parquet(sink, statistics=statistics, row_group_size=draw.choice((None, 2)))
    return sink.getvalue()


def _duckdb(draw, table, path):
    # Its version 2 of an all-null column is beyond pyarrow.
    duckdb.from_arrow(table).write_parquet(str(path), compression=draw.choice(("snappy", "zstd")))
    return path.read_bytes()


def _filters(draw, name):
    values = _TYPES[name][2]
    literals = tuple(draw.sample(values, min(3, len(values))))
    yield from (pred.IsNull(name), pred.IsNull(name, negated=True))
    yield from (pred.In(name, literals), pred.In(name, literals, negated=True))
    low, high = sorted(literals[:2], key=str)
    yield pred.And(
        (pred.Comparison(name, pred.CompareOp.GE, low),
         pred.Comparison(name, pred.CompareOp.LE, high))
    )  # fmt: skip
    for literal in literals:
        yield from (pred.Comparison(name, op, literal) for op in pred.CompareOp)
        yield from (pred.In(name, (literal,)), pred.In(name, (literal,), negated=True))
        if name in ("s", "vc"):
            yield from (pred.StartsWith(name, literal), pred.Like(name, f"%{literal}"))
            yield from (pred.Like(name, f"{literal}%", negated=each) for each in (False, True))


def _check(folder, file, draw):
    """Compare filtered reads of a file with filters of all its rows; return how many."""
    file_format = file.suffix[1:]
    stored = pq.read_schema(file) if file_format == "parquet" else orc.ORCFile(file).schema
    catalog = open_catalog(str(folder / "w"))
    table = new_table(catalog, {name: _TYPES[name][0] for name in stored.names})
    add_segment(table, file.parent, file_format)
    rows = table.to_arrow().combine_chunks().to_batches()[0]
    tried = 0
    for name in stored.names:
        for where in _filters(draw, name):
            bound = pred.bind(where, table.schema)
            passing = rows.filter(passing_rows(bound, rows.column, table.schema.by_name))
            assert table.count(where) == passing.num_rows, (name, where, rows.column(name))
            if tried % 9 == 0:
                read = table.new_read_builder().with_filter(where).to_arrow()
                assert str(read.to_pylist()) == str(passing.to_pylist()), (name, where)
            tried += 1
    return tried


_WRITERS = {
    "pyarrow": (_arrow_parquet, "parquet", ()),
    "pyarrow orc": (_arrow_orc, "orc", ("tm", "z6")),
    "polars": (_polars, "parquet", ()),
    "duckdb": (_duckdb, "parquet", ("x", "t3", "tm")),
}


@pytest.mark.parametrize("writer", _WRITERS)
def test_filters_of_random_files_equal_filtered_whole_read(tmp_path, writer):
    write, file_format, lacking = _WRITERS[writer]
    tried = 0
    for seed in range(often(16 if writer == "pyarrow" else 4)):
        draw = Random(f"{writer} {seed}")  # noqa: S311 - no secret
        table = _table(
            draw, ["f8", *draw.sample([name for name in _TYPES if name not in ("f8", *lacking)], 3)]
        )
        file = tmp_path / str(seed) / "in" / f"a.{file_format}"
        file.parent.mkdir(parents=True)
        more = (file,) if write is _duckdb else ()
        file.write_bytes(write(draw, table, *more))
        tried += _check(tmp_path / str(seed), file, draw)
    assert tried > 200


@pytest.mark.parametrize("file", sorted(_GOLDEN.iterdir()), ids=lambda file: file.name)
def test_filters_of_foreign_files_equal_filtered_whole_read(tmp_path, file):
    copied = tmp_path / "in" / f"a{file.suffix}"
    copied.parent.mkdir()
    copied.write_bytes(file.read_bytes())
    assert _check(tmp_path, copied, Random(file.name)) > 100  # noqa: S311 - no secret


@pytest.mark.parametrize("name", [name for name in _TYPES if name not in ("bo", "s", "vc", "b")])
def test_bounds_shorter_than_their_type_are_refused(tmp_path, name):
    """Arrow ends the process when it is asked for such a value."""
    draw, sink = Random(name), io.BytesIO()  # noqa: S311 - no secret
    kind, arrow, values = _TYPES[name]
    pq.write_table(pa.table({"i": [1], name: pa.array(values[-1:], arrow)}), sink)

    def change(footer):
        statistics = footers.parquet_statistics(footer)[name][0]
        for number in draw.choice(((5, 6), (5,), (6,))):
            statistics[number] = (footers.BINARY, statistics[number][1][: draw.choice((0, 1, 3))])

    (tmp_path / "in").mkdir()
    data = footers.change_parquet_footer(sink.getvalue(), change)
    (tmp_path / "in" / "a.parquet").write_bytes(data)
    table = new_table(tmp_path, {name: kind})
    with refused(FormatError, "bounds that are shorter than their type", kind="format"):
        add_segment(table, tmp_path / "in")


_FILTERED_READS = """
import sys
from paimon_assets import FormatError, open_table
from paimon_assets.engine.spec.predicate.predicate import IsNull
for path in sys.argv[1:]:
    for name in open_table(path).schema.field_names:
        try:
            print(open_table(path).to_arrow(where=IsNull(name, negated=True)).num_rows)
        except FormatError as error:
            print(error.kind, error.message)
"""


def _with_short_bounds(data, bound, left):
    """Shorten the bounds in the footer of a file, whose size stays the manifest's."""
    padding = 200

    def change(footer):
        footer[5][1][1].clear()
        footer[6] = (footers.BINARY, b" " * padding)
        for (statistics,) in footers.parquet_statistics(footer).values():
            statistics[bound] = (footers.BINARY, statistics[bound][1][:left])

    padding += len(data) - len(footers.change_parquet_footer(data, change))
    return footers.change_parquet_footer(data, change)


def test_own_bounds_shorter_than_their_type_are_refused(tmp_path):
    names = [name for name in _TYPES if name not in ("bo", "f4", "f8", "s", "vc", "b")]
    paths = []
    for bound, left in [(bound, left) for bound in (5, 6) for left in (0, 1, 3)]:
        table = new_table(
            tmp_path, {name: _TYPES[name][0] for name in names}, name=f"db.t{left}{bound}"
        )
        values = {name: pa.array([_TYPES[name][2][-1], None], _TYPES[name][1]) for name in names}
        table.new_write_builder().write(pa.table(values))
        (file,) = Path(table.path).glob("bucket-0/*.parquet")
        file.write_bytes(_with_short_bounds(file.read_bytes(), bound, left))
        paths.append(table.path)
    child = subprocess.run(
        [sys.executable, "-c", _FILTERED_READS, *paths],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert child.returncode == 0, (child.stdout, child.stderr)
    lines = child.stdout.splitlines()
    assert len(lines) == len(names) * len(paths)
    assert all("parquet' is not readable" in line and "shorter than" in line for line in lines)


def test_undecodable_columns_are_refused_or_left_out(tmp_path):
    """Of 60 files, each with a codec or an encoding of another year in one column."""
    data = pa.table({name: [[1]] if name == "l" else [1] for name in "abl"})
    types = {name: "ARRAY<BIGINT>" if name == "l" else "BIGINT" for name in "abl"}
    for number in range(often(60)):
        draw, sink = Random(number), io.BytesIO()  # noqa: S311 - no secret
        bad, declared = draw.choice("abl"), draw.sample("abl", draw.randint(1, 3))
        field = draw.choice((2, 4))
        value = draw.choice((10, 77, 1_000) if field == 2 else (3, 8, 9, 77, 1_000))
        pq.write_table(pa.concat_tables([data] * 3), sink, row_group_size=draw.randint(1, 3))

        def change(footer, draw=draw, bad=bad, field=field, value=value):
            metadata = draw.choice(footer[4][1][1])[1][1][1]["abl".index(bad)][3][1]
            kind, old = metadata[field]
            metadata[field] = (kind, 2 * value if field == 4 else (old[0], [*old[1], 2 * value]))

        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.parquet").write_bytes(footers.change_parquet_footer(sink.getvalue(), change))
        table = new_table(tmp_path, {name: types[name] for name in declared}, name=f"db.t{number}")
        if bad in declared:
            with refused(FormatError, f"'{bad}' has a codec.*Write the file again", kind="format"):
                add_segment(table, folder)
        else:
            add_segment(table, folder)
            assert table.to_arrow() == pa.concat_tables([data] * 3).select(declared), number


class _Keys(encryption.KmsClient):
    def wrap_key(self, key_bytes, _master):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, _master):
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_encrypted_files_are_refused_with_way_out(tmp_path, plain, whole):
    factory = encryption.CryptoFactory(lambda _: _Keys())
    columns = {} if whole else {"column_keys": {"c": ["a"]}}
    properties = factory.file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="f", uniform_encryption=whole, plaintext_footer=plain, **columns
        ),
    )
    data = pa.table({"a": [1]})
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.parquet"
    with pq.ParquetWriter(path, data.schema, encryption_properties=properties) as writer:
        writer.write_table(data)
    source = FileSource(folder=str(tmp_path / "in"), format="parquet")
    table = new_table(tmp_path, {"a": "BIGINT"})
    with refused(FormatError, "Write the file without encryption", kind="format"):
        add_segment(table, tmp_path / "in")
    with refused(FormatError, "Write the file without encryption", kind="source-file"):
        schema = checked_schema(LocalFileIO(), [str(path)], source, None)
        read_files(LocalFileIO(), [str(path)], source, schema).read_all()
    pq.write_table(data, path)
    add_segment(table, tmp_path / "in")
    assert table.to_arrow() == data


@pytest.mark.parametrize(
    ("query", "kind", "message", "mended"),
    [
        ("SELECT NULL::INTEGER[2] UNION ALL SELECT [1, 2]", "ARRAY<INT>",
         "Cast arrays of duckdb to lists", "SELECT [1, 2] UNION ALL SELECT NULL::INTEGER[]"),
        ("SELECT TIME '24:00:00'", "TIME(3)", "write it as a number", "SELECT TIME '23:00:00'"),
    ],
)  # fmt: skip
def test_columns_that_duckdb_writes_oddly_are_refused_with_way_out(
    tmp_path, query, kind, message, mended
):
    (tmp_path / "in").mkdir()
    path, table = tmp_path / "in" / "a.parquet", new_table(tmp_path, {"v": kind})
    duckdb.sql(query).project("#1 AS v").write_parquet(str(path))
    source = FileSource(folder=str(tmp_path / "in"), format="parquet")
    with refused(FormatError, message, kind="format"):
        add_segment(table, tmp_path / "in")
        table.to_arrow()
    with refused(FormatError, message, kind="source-file"):
        schema = checked_schema(LocalFileIO(), [str(path)], source, None)
        read_files(LocalFileIO(), [str(path)], source, schema).read_all()
    duckdb.sql(mended).project("#1 AS v").write_parquet(str(path))
    other = new_table(tmp_path, {"v": kind}, name="db.u")
    add_segment(other, tmp_path / "in")
    assert other.count() == len(duckdb.sql(mended).fetchall())


def test_integers_of_128_bits_are_refused_with_way_out(tmp_path):
    (tmp_path / "in").mkdir()
    rows = pl.DataFrame({"v": pl.Series([1, 2], dtype=pl.Int128)})
    rows.write_parquet(tmp_path / "in" / "a.parquet")
    table = new_table(tmp_path, {"v": "DECIMAL(38, 0)"})
    with refused(FormatError, "Cast the integers to DECIMAL", kind="format"):
        add_segment(table, tmp_path / "in")
    rows.cast(pl.Decimal(38, 0)).write_parquet(tmp_path / "in" / "a.parquet")
    add_segment(table, tmp_path / "in")
    assert table.count("v = 2") == 1


def test_lists_of_lists_in_two_levels_are_refused_with_way_out(tmp_path):
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [[[1]]]}), sink)

    def change(footer):
        footer[2][1][1][3][3] = (5, 2 * 2)  # the inner list is repeated

    (tmp_path / "in").mkdir()
    data = footers.change_parquet_footer(sink.getvalue(), change)
    (tmp_path / "in" / "a.parquet").write_bytes(data)
    with refused(FormatError, "lists and maps in three levels", kind="format"):
        add_segment(new_table(tmp_path, {"a": "ARRAY<ARRAY<BIGINT>>"}), tmp_path / "in")


_AVRO: dict[str, tuple[Any, str | None, Any]] = {
    "enum": ({"type": "enum", "name": "n.Color", "symbols": ["RED", "B_1"]}, "STRING", "B_1"),
    "fixed": ({"type": "fixed", "name": "Four", "size": 4}, "BYTES", b"\x00\xffab"),
    "dec": (
        {"type": "fixed", "name": "D", "size": 5, "logicalType": "decimal", "precision": 9,
         "scale": 2},
        "DECIMAL(9, 2)", Decimal("-1.23"),
    ),
    "row": (
        {"type": "record", "name": "R", "fields": [{"name": "c", "type": "n.Color"}]},
        "ROW<c STRING>", {"c": "RED"},
    ),
    "again": ({"type": "array", "items": ["null", "R"]}, "ARRAY<ROW<c STRING>>",
              [{"c": "RED"}, None]),
    "union": (["null", "int", "string"], None, 5),
    "list": ({"type": "array", "items": ["string", "boolean"]}, None, ["a", True]),
    "empty": ("null", None, None),
    "wide": ({"type": "bytes", "logicalType": "decimal", "precision": 50}, None, Decimal(5)),
    "tree": (
        {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]},
        None, {"next": {"next": None}},
    ),
}  # fmt: skip


def test_foreign_avro_types_are_read_or_left_out(tmp_path):
    """Of 60 files, each with some columns: all of one type that a table has can be declared."""
    for number in range(often(60)):
        random = Random(number)  # noqa: S311
        chosen = [name for name in _AVRO if random.random() < 0.6]
        if {"row", "again"} & {*chosen}:  # use the names of types that are declared before
            chosen = [*dict.fromkeys(["enum", "row", *chosen])]
        declared = [name for name in chosen if random.random() < 0.7]
        rows = random.randrange(1, 4) * [{"id": 1} | {name: _AVRO[name][2] for name in chosen}]
        fields: Any = [{"name": name, "type": _AVRO[name][0]} for name in chosen]
        fields.insert(random.randrange(len(fields) + 1), {"name": "id", "type": "int"})
        folder = tmp_path / str(number)
        folder.mkdir()
        with (folder / "1.avro").open("wb") as file:
            schema = fastavro.parse_schema({"type": "record", "name": "t", "fields": fields})
            fastavro.writer(file, schema, rows)
        columns = {"id": "INT"} | {name: _AVRO[name][1] or "STRING" for name in declared}
        if bad := [name for name in declared if _AVRO[name][1] is None]:
            table = new_table(tmp_path, columns, name=f"db.bad{number}")
            with refused(InvalidInputError, "leave the column out", kind="segment-schema"):
                add_segment(table, folder, "avro")
            columns = {name: columns[name] for name in columns if name not in bad}
        table = new_table(tmp_path, columns, name=f"db.t{number}")
        add_segment(table, folder, "avro")
        found = table.to_arrow().to_pylist()
        assert found == [{name: row[name] for name in columns} for row in rows], number
        assert table.count("id = 1") == len(rows)


def test_avro_codecs_are_read_or_refused_with_known_ones(tmp_path):
    rows = [{"id": number, "s": "x" * number} for number in range(300)]
    fields = [{"name": "id", "type": "int"}, {"name": "s", "type": "string"}]
    schema: Any = {"type": "record", "name": "t", "fields": fields}
    for codec in ("null", "deflate", "bzip2", "xz", "zstandard"):
        path = tmp_path / codec / "1.avro"
        path.parent.mkdir()
        with path.open("wb") as file:
            fastavro.writer(file, schema, rows, codec=codec, sync_interval=100)
        table = new_table(tmp_path, {"id": "INT", "s": "STRING"}, name=f"db.{codec}")
        add_segment(table, path.parent, "avro")
        assert table.to_arrow().to_pylist() == rows
        path.write_bytes(path.read_bytes().replace(codec.encode(), codec.encode()[::-1], 1))
        with refused(FormatError, "not supported. Write .* one of .*deflate.*zstan", kind="avro"):
            bad = new_table(tmp_path, {"id": "INT"}, name=f"db.bad_{codec}")
            add_segment(bad, path.parent, "avro")


def test_unions_of_records_are_refused_and_null_records_have_nulls(tmp_path):
    record: Any = {"type": "record", "name": "A", "fields": [{"name": "id", "type": "int"}]}
    for number, (other, values) in enumerate(
        [("null", [None, {"id": 1}]), ("int", [5]), ({**record, "name": "B"}, [{"id": 1}])]
    ):
        path = tmp_path / str(number) / "1.avro"
        path.parent.mkdir()
        with path.open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema([other, record]), values)
        table = new_table(tmp_path, {"id": "INT"}, name=f"db.t{number}")
        if other == "null":
            add_segment(table, path.parent, "avro")
            assert table.to_arrow()["id"].to_pylist() == [None, 1]
        else:
            with refused(FormatError, "several types; write those of each", kind="avro"):
                add_segment(table, path.parent, "avro")


def test_names_of_partition_folders_are_texts_of_any_writer(tmp_path):
    texts = ["ü", "a/b", "a b", "日本", "é=x", "100%", "%C3", "x+y", "Ã¼", "it's", "\\", "?#*", "é"]
    rows = pa.table({"v": range(len(texts)), "p": texts})
    pq.write_to_dataset(rows, tmp_path / "arrow", partition_cols=["p"])
    pl.from_arrow(rows).write_parquet(tmp_path / "polars", partition_by=["p"])
    query = f"COPY rows TO '{tmp_path}/duckdb' (FORMAT parquet, PARTITION_BY (p))"
    duckdb.connect().register("rows", rows).execute(query)
    for writer in ("arrow", "polars", "duckdb"):
        columns = {"v": "BIGINT", "p": "STRING"}
        table = new_table(tmp_path, columns, partition_keys=["p"], name=f"db.{writer}")
        add_segment(table, tmp_path / writer, partition="p:string")
        found = sorted(table.to_arrow().to_pylist(), key=lambda row: row["v"])
        assert found == rows.to_pylist(), writer
        assert table.count("p = 'ü'") == 1
