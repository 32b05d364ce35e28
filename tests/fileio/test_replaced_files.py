"""Foreign files that are replaced while a table reads them: rows of one version, or an error."""

import io
import os
import random
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.fileio.base import ReplacedFileError
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.s3_server import BUCKET, boto3_client
from tests.testkit.tables import new_catalog_in, new_table

ROWS = 60_000
FORMATS = ("parquet", "csv", "json")


def _bytes(kind, value):
    """Return a file whose size does not depend on the value, of nine digits."""
    if kind == "parquet":
        sink = io.BytesIO()
        table = pa.table({"id": pa.array([value] * ROWS, pa.int64())})
        settings = {"use_dictionary": False, "compression": "none", "row_group_size": 6_000}
        pq.write_table(table, sink, write_statistics=False, **settings)
        return sink.getvalue()
    line = f'{{"id": {value}}}\n' if kind == "json" else f"{value}\n"
    return (b"id\n" if kind == "csv" else b"") + line.encode() * ROWS


class _Folder:
    """A folder of one file, on S3 or a local disk."""

    def __init__(self, place, kind, server, name):
        self.name, self.objects = f"data.{kind}", None
        if isinstance(place, Path):
            self.path = str(place / "foreign")
            Path(self.path).mkdir()
        else:
            self.path, self.key = f"s3://{BUCKET}/{name}", f"{name}/{self.name}"
            self.objects = boto3_client(server)

    def put(self, data):
        if self.objects is not None:
            self.objects.put_object(Bucket=BUCKET, Key=self.key, Body=data)
            return
        path = Path(self.path) / self.name
        times = path.stat().st_mtime_ns if path.exists() else time.time_ns()
        fresh = path.with_suffix(".new")
        fresh.write_bytes(data)
        # The same second, and millisecond.
        os.utime(fresh, ns=(times // 1_000_000 * 1_000_000,) * 2)
        fresh.replace(path)


@pytest.fixture(params=["s3", "local"])
def world(request, server, tmp_path):
    """Return a function that makes a table with a segment of a format, and its folder."""
    name = f"replaced-{abs(hash(request.node.name))}"
    place = tmp_path if request.param == "local" else f"s3://{BUCKET}/{name}"
    catalog = new_catalog_in(f"{place}/lake", options={} if request.param == "local" else server)

    def make(kind, number=0):
        folder = _Folder(
            tmp_path if request.param == "local" else place, kind, server, f"{name}-{kind}-{number}"
        )
        folder.put(_bytes(kind, 111_111_111))
        table = new_table(catalog, {"id": "BIGINT"})
        table.segments().add(SegmentSource(path=folder.path, format=kind))
        return table, folder

    return make


@pytest.mark.parametrize("kind", FORMATS)
def test_file_replaced_within_second_of_its_import_is_refused(world, kind):
    table, folder = world(kind)
    folder.put(_bytes(kind, 222_222_222))
    with refused(InvalidInputError, "since it was imported", kind="segment-file-changed"):
        table.new_read_builder().to_arrow()
    table.segments().refresh([])
    assert set(table.new_read_builder().to_arrow()["id"].to_pylist()) == {222_222_222}


@pytest.mark.parametrize("kind", FORMATS)
def test_file_replaced_between_plan_and_read_is_refused(world, kind):
    table, folder = world(kind)
    plan = table.new_read_builder().plan()
    folder.put(_bytes(kind, 222_222_222))
    with refused(FormatError, "was replaced", kind="file-replaced"):
        list(EmbeddedExecutor().map_splits(plan.context, plan.splits))


@pytest.mark.parametrize("kind", FORMATS)
def test_file_replaced_between_two_batches_gives_rows_of_one_file(world, kind):
    table, folder = world(kind)
    draw = random.Random(kind)  # noqa: S311
    for number in range(often(3)):
        plan, values = table.new_read_builder().plan(), set()
        last = draw.randrange(4)
        with suppress(FormatError):
            for count, batch in enumerate(EmbeddedExecutor().map_splits(plan.context, plan.splits)):
                values |= set(batch["id"].to_pylist())
                if count == last:
                    folder.put(_bytes(kind, 222_222_222 + number))
        assert len(values) == 1
        table.segments().refresh([])


@pytest.mark.parametrize("seed", range(often(20)))
def test_ranges_are_of_one_version_of_object(server, seed):
    draw = random.Random(seed)  # noqa: S311
    path, size = f"s3://{BUCKET}/versions/{seed}", 600_000
    file_io, objects = file_io_for(path, server), boto3_client(server)
    put = partial(objects.put_object, Bucket=BUCKET, Key=f"versions/{seed}")
    put(Body=b"a" * size)
    if draw.random() < 0.5:
        file_io.open_ahead([(path, size)])
    ranges = [(start := draw.randrange(size), draw.randrange(start, size) + 1) for _ in range(4)]
    with file_io.open_input(path, size) as file:
        if draw.random() < 0.5:
            file.ranged.plan(sorted(ranges))
        first, last = set[int](), draw.randrange(4)
        try:
            for number, (start, end) in enumerate(ranges):
                file.seek(start)
                first |= set(bytes(file.read(end - start)))
                if number == last:
                    put(Body=b"b" * size)
        except ReplacedFileError:
            pass
    assert first == {ord("a")}
    with file_io.open_input(path, size) as file:
        assert set(bytes(file.read())) == {ord("b")}
