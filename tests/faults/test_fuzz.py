"""Whatever bytes a file holds, reading gives rows or a typed error, soon, and never anything else.

The short version runs in the suite; `make hunt` runs tens of thousands of cases.
"""

import os
import random

import pytest
from pyroaring import BitMap64

from paimon_assets.engine.codec.avro import manifest_avro
from paimon_assets.engine.codec.bitmaps.deletion_vector import decode_vector
from paimon_assets.engine.codec.bitmaps.roaring import read_java_bitmap64, write_java_bitmap64
from paimon_assets.engine.codec.json.metadata_json import (
    schema_from_json,
    snapshot_from_json,
    tag_from_json,
)
from paimon_assets.engine.codec.json.segment_json import (
    SegmentList,
    segments_from_json,
    segments_to_json,
)
from paimon_assets.engine.codec.orc_footer import read_orc_footer
from paimon_assets.engine.codec.rows.data_file_row import file_from_row, file_to_row
from paimon_assets.engine.contract import wire
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.table.table import Table
from tests.faults.fuzz import EXECUTOR, Overlay, forget_manifests, make_tables, mutate, only_typed
from tests.testkit.builders import data_file
from tests.testkit.effort import is_hunt

CASES = 10_000 if is_hunt() else 300
"""Of each decoder, in the suite and in `make hunt`; of each table an eighth."""
SEED = os.environ.get("PAIMON_FUZZ_SEED", "1")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return the tables, one of each file format."""
    return make_tables(tmp_path_factory.mktemp("fuzz"))


def _files(table):
    return sorted(
        path
        for path in table.rglob("*")
        if path.is_file() and path.name != "EARLIEST" and path.stat().st_size
    )


def _decoders(tables):
    """Return name → (correct bytes, their decoder)."""
    table = tables[0]

    def first(pattern):
        return min(table.glob(pattern)).read_bytes()

    orc = min(tables[1].rglob("data-*.orc")).read_bytes()
    avro = min(table.glob("manifest/manifest-list-*")).read_bytes()
    manifest = max(
        (path for path in table.glob("manifest/manifest-*") if "list" not in path.name),
        key=lambda path: path.stat().st_size,
    ).read_bytes()
    split = Table(FileStore.open(Overlay(table, b""), str(table))).new_read_builder().plan()
    file_row = file_to_row(data_file())
    return {
        "schema": (first("schema/schema-0"), lambda d: schema_from_json(d, "x")),
        "snapshot": (first("snapshot/snapshot-3"), lambda d: snapshot_from_json(d, "x")),
        "tag": (first("tag/tag-kept"), lambda d: tag_from_json("t", d, "x")),
        "segments": (
            segments_to_json(SegmentList(next_id=1)), lambda d: segments_from_json(d, "x"),
        ),
        "manifest": (manifest, lambda d: manifest_avro.read_manifest(d, "x")),
        "manifest list": (avro, lambda d: manifest_avro.read_manifest_list(d, "x")),
        "index manifest": (
            first("manifest/index-manifest-*"), lambda d: manifest_avro.read_index_manifest(d, "x"),
        ),
        "vector": (first("index/index-*")[1:], lambda d: decode_vector(d, "x")),
        "bitmap64": (
            write_java_bitmap64(BitMap64([1, 2, 2**40])),
            read_java_bitmap64,
        ),
        "orc footer": (
            orc, lambda d: read_orc_footer(lambda at, n: d[max(at, 0) :][: max(n, 0)], len(d), "x"),
        ),
        "file row": (file_row, file_from_row),
        "split": (wire.dump_split(split.splits[0]), wire.load_split),
    }  # fmt: skip


DECODERS = (
    "schema", "snapshot", "tag", "segments", "manifest", "manifest list", "index manifest",
    "vector", "bitmap64", "orc footer", "file row", "split",
)  # fmt: skip


@pytest.mark.hunt
@pytest.mark.parametrize("name", DECODERS)
def test_decoder_raises_typed_errors(tables, name):
    data, decode = _decoders(tables)[name]
    decode(data)
    rng = random.Random(f"{name} {SEED}")  # noqa: S311
    for number in range(CASES):
        damaged = mutate(rng, data)
        with only_typed(f"{name} {number}: {damaged!r}"[:2000]):
            decode(damaged)


def _use(path, damaged, table):
    """Read a table in every way while one of its files holds other bytes."""
    forget_manifests()
    store = FileStore.open(Overlay(path, damaged), str(table))
    opened = Table(store)
    opened.new_read_builder().with_filter("v = 'v3' and p = 'a'").to_arrow(EXECUTOR)
    opened.new_read_builder().to_arrow(EXECUTOR)
    for name in ("statistics", "tags", "files", "snapshots", "table_indexes"):
        opened.system_table(name).to_arrow(EXECUTOR)


@pytest.mark.hunt
@pytest.mark.parametrize("number", range(3), ids=["parquet", "orc", "avro"])
def test_table_with_damaged_file_is_read_or_refused(tables, number):
    table = tables[number]
    rng = random.Random(f"{number} {SEED}")  # noqa: S311
    files = _files(table)
    for turn in range(CASES // 8):
        path = files[turn % len(files)]
        data = path.read_bytes()
        damaged = mutate(rng, data, same_size=path.suffix[1:] in ("parquet", "orc", "avro"))
        with only_typed(f"{path} {turn}"):
            _use(path, damaged, table)
