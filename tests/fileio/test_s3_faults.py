"""An S3 server that answers with errors, before or after it did the request."""

import contextlib
import random
from concurrent.futures import wait

import numpy as np
import pyarrow as pa
import pytest

from paimon_assets.engine import errors
from paimon_assets.engine.data.format.formats import open_writer
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.fileio import object_store
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.evolution.schema_change import set_option
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_table
from tests.faults.fuzz import forget_manifests
from tests.testkit.effort import is_hunt
from tests.testkit.errors import refused
from tests.testkit.s3_faults import ENDED, KEPT, s3_faults
from tests.testkit.s3_server import ACCESS_KEY, BUCKET, boto3_client
from tests.testkit.tables import new_catalog_in, new_table

pytestmark = pytest.mark.slow

SCHEMA = Schema.of({"id": "BIGINT"})
ROWS = pa.table({"id": [1, 2]})
MIB = 1024 * 1024
STATUSES = (403, 409, 500, 503)
STRIDE = 1 if is_hunt() else 17
"""Requests between two that fail."""


@pytest.fixture(scope="module")
def catalog(proxy):
    """Return a catalog that has one database, through the proxy."""
    return new_catalog_in(f"s3://{BUCKET}/faults", options=proxy[1])


@pytest.fixture
def table(catalog, faults):
    table = new_table(catalog, SCHEMA)
    _write(table)
    yield table
    faults.reset()
    catalog.drop_table("db.t")
    catalog.drop_table("db.new", ignore_if_missing=True)


def _write(table):
    return table.new_write_builder().write(ROWS, EmbeddedExecutor())


def _files(table, folder):
    return [status.name for status in table.state.file_io.list_directory(f"{table.path}/{folder}")]


@pytest.mark.parametrize(("status", "after"), [(403, False), (409, False), (500, True)])
def test_commit_whose_hint_is_refused_counts(table, faults, status, after):
    faults.plan("PUT", "*/snapshot/LATEST", status, after=after)
    _write(table)
    wait(object_store._HINTS.values())
    assert faults.fired
    assert table.new_read_builder().to_arrow().num_rows == 4


def test_no_hint_leads_to_commit_before_its_look_back(table, faults):
    faults.plan("GET", "*/schema/schema-0", 404)  # the look back: the table was dropped
    with pytest.raises(errors.NotFoundError, match="dropped or renamed meanwhile"):
        _write(table)
    assert faults.fired
    assert _files(table, "snapshot") == ["LATEST", "snapshot-1"]
    assert table.state.file_io.read_bytes(f"{table.path}/snapshot/LATEST") == b"1"
    assert table.new_read_builder().to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("name", "status"), [("*/manifest/manifest-*", 403), ("*/bucket-0/data-*", 500)]
)
def test_refused_file_raises_typed_error_without_leftovers(table, faults, name, status):
    before = _files(table, "bucket-0"), _files(table, "manifest")
    faults.plan("PUT", name, status)
    with pytest.raises(errors.StorageError):
        _write(table)
    assert faults.fired
    assert (_files(table, "bucket-0"), _files(table, "manifest")) == before


def _uploads(server):
    return boto3_client(server).list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_failed_upload_leaves_no_parts_and_raises(server, proxy, faults, method):
    path = f"s3://{BUCKET}/parts/failed-{method}"
    file_io = file_io_for(path, proxy[1])
    faults.plan(method, f"/{BUCKET}/parts/failed-*", 403, skip=1)

    def write():
        with file_io.open_output(path) as stream:
            for _ in range(10):
                stream.write(b"x" * 3 * MIB)

    with pytest.raises(PermissionError, match="403 AccessDenied"):
        write()
    assert faults.fired
    assert (_uploads(server), file_io.exists(path)) == ([], False)


def test_write_that_is_aborted_uploads_no_more(server, proxy, faults):
    path = f"s3://{BUCKET}/parts/aborted.parquet"
    file_io = file_io_for(path, proxy[1])
    rows = pa.table({"v": np.random.default_rng(1).random(3 * MIB)})
    writer = open_writer(file_io, path, rows.schema, file_format="parquet")
    writer.write(rows)
    assert writer.written_bytes > 16 * MIB
    writer.abort()
    assert (_uploads(server), file_io.exists(path)) == ([], False)


def _commit(catalog, table):
    _write(table)
    assert table.new_read_builder().to_arrow().num_rows == 4


def _create_table(catalog, table):
    catalog.create_table("db.new", SCHEMA)


def _alter(catalog, table):
    catalog.alter_table("db.t", [set_option("snapshot.num-retained.max", "30")])


def _create_tag(catalog, table):
    table.tags.create("tag")


def _rename_tag(catalog, table):
    table.tags.create("old")
    table.tags.rename("old", "new")


PUBLISHES = {
    "commit": (_commit, "*/snapshot/snapshot-2"),
    "create_table": (_create_table, "*/new/schema/schema-0"),
    "alter": (_alter, "*/schema/schema-1"),
    "create tag": (_create_tag, "*/tag/tag-tag"),
    "rename tag": (_rename_tag, "*/tag/tag-new"),
}


@pytest.mark.parametrize("status", [403, 500])
@pytest.mark.parametrize("operation", PUBLISHES)
def test_publish_whose_answer_is_lost_is_looked_up(catalog, table, faults, operation, status):
    do, name = PUBLISHES[operation]
    faults.plan("PUT", name, status, after=True)
    do(catalog, table)
    assert faults.fired


def test_repeated_publish_recognises_own_file(server, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    with s3_faults(server) as (faults, through):
        catalog = new_catalog_in(f"s3://{BUCKET}/repeated", options=through)
        table = new_table(catalog, SCHEMA)
        _write(table)
        for do, name in PUBLISHES.values():
            faults.plan("PUT", name, 500, after=True)
            do(catalog, table)
            assert faults.fired
            faults.reset()


@pytest.mark.parametrize("operation", PUBLISHES)
def test_failed_publish_is_typed_and_repeatable(catalog, table, faults, operation):
    do, name = PUBLISHES[operation]
    faults.plan("PUT", name, 503)
    try:
        do(catalog, table)
    except errors.CommitUnknownError:
        if operation == "rename tag":
            table.tags.rename("old", "new")
        else:
            do(catalog, table)
    assert faults.fired


def test_foreign_object_is_not_own_publish(catalog, table, faults):
    table.tags.create("tag")
    faults.plan("PUT", "*/tag/tag-tag", 500, after=True)
    with pytest.raises(errors.AlreadyExistsError):
        table.tags.create("tag")
    assert faults.fired


@pytest.mark.parametrize("status", [403, 500])
def test_refused_read_raises_typed_error(table, faults, proxy, status):
    patterns = ("*/bucket-0/data-*", "*/manifest/manifest-*", "*/snapshot/snapshot-1")
    for seconds, pattern in enumerate(patterns, 7):
        options = {**proxy[1], "s3.connect-timeout": f"{seconds} s"}  # a client of no known file
        opened = open_table(table.path, options)
        faults.plan("GET", pattern, status)
        forget_manifests()
        with pytest.raises(errors.StorageError):
            opened.new_read_builder().to_arrow()
        assert faults.fired
        faults.reset()


@pytest.mark.parametrize("file_format", ["orc", "avro"])
@pytest.mark.parametrize("answered", [0, 1])
def test_storage_failure_inside_file_is_no_damage(proxy, faults, file_format, answered):
    options = proxy[1]
    catalog = new_catalog_in(f"s3://{BUCKET}/{file_format}-{answered}", options=options)
    table = new_table(catalog, {"v": "BYTES"}, options={"file.format": file_format})
    values = [random.Random(row).randbytes(100_000) for row in range(120)]  # noqa: S311
    table.new_write_builder().write(pa.table({"v": pa.array(values, pa.binary())}))
    opened = open_table(table.path, {**options, "s3.connect-timeout": "9 s"})
    faults.plan("GET", "*/bucket-0/data-*", 403, skip=answered)
    with refused(errors.StorageError, kind=errors.ACCESS_DENIED):
        opened.new_read_builder().to_arrow()


def test_failed_listing_is_replaced_by_requests(table, faults):
    faults.plan("GET", f"/{BUCKET}", 403)
    assert table.new_read_builder().to_arrow().num_rows == 2
    assert faults.fired
    _write(table)
    assert table.new_read_builder().to_arrow().num_rows == 4


def _plan(faults, status, number):
    """Let the request of a number fail; all from it on, if the key has ended."""
    if status == ENDED:
        faults.lives[ACCESS_KEY] = number
    else:
        faults.plan("*", "*", status, skip=number)


def _read(file_io, path):
    with file_io.open_input(path) as file:
        return bytes(file.read())


LOOKS = {
    "exists": lambda file_io, path: file_io.exists(path),
    "exists folder": lambda file_io, path: file_io.exists(path.rpartition("/")[0]),
    "file_size": lambda file_io, path: file_io.file_size(path) == 3,
    "read_bytes": lambda file_io, path: file_io.read_bytes(path) == b"abc",
    "open_input": lambda file_io, path: _read(file_io, path) == b"abc",
    "list_directory": lambda file_io, path: file_io.list_directory(path.rpartition("/")[0]),
}
"""Calls that show whether a file of three bytes exists; each is true."""


@pytest.mark.parametrize("status", [ENDED, *STATUSES])
@pytest.mark.parametrize("look", LOOKS)
def test_refused_lookup_is_not_absence(proxy, faults, look, status):
    path = f"s3://{BUCKET}/there/a"
    file_io = file_io_for(path, proxy[1])
    file_io.write_bytes(path, b"abc")
    for number in range(9):
        faults.reset()
        _plan(faults, status, number)
        refusal = None
        try:
            assert LOOKS[look](file_io, path)
        except errors.StorageError as error:
            refusal = error.kind == errors.ACCESS_DENIED
        except OSError as error:  # a file that was open
            refusal = isinstance(error, PermissionError)
        if not faults.fired:
            break
        assert refusal in (None, status in (ENDED, 403))
    assert 0 < number < 8


@pytest.mark.parametrize("status", [ENDED, *STATUSES])
@pytest.mark.parametrize("operation", ["delete_file", "delete_directory"])
def test_refused_deletion_raises_typed_error(proxy, faults, operation, status):
    path = f"s3://{BUCKET}/gone"
    file_io = file_io_for(path, proxy[1])
    for number in range(9):
        file_io.write_bytes(f"{path}/a", b"abc")
        _plan(faults, status, number)
        with contextlib.suppress(errors.StorageError):
            getattr(file_io, operation)(f"{path}/a" if operation == "delete_file" else path)
            faults.lives.clear()
            assert not file_io.exists(f"{path}/a")
        fired = bool(faults.fired)
        faults.reset()
        if not fired:
            break
    assert 0 < number < 8


DELETIONS = {
    "delete_file": lambda file_io, folder: file_io.delete_file(f"{folder}/a"),
    "delete_directory": lambda file_io, folder: file_io.delete_directory(folder),
    "rename": lambda file_io, folder: file_io.rename_directory(folder, f"{folder}-renamed"),
}


@pytest.mark.parametrize("operation", DELETIONS)
def test_undeletable_file_raises_typed_error(proxy, faults, operation):
    folder = f"s3://{BUCKET}/kept-{operation}"
    file_io = file_io_for(folder, proxy[1])
    file_io.write_bytes(f"{folder}/a", b"abc")
    for _ in range(2):
        faults.plan("POST", "*", KEPT)
    faults.plan("DELETE", "*", 403)
    with refused(errors.StorageError, kind=errors.ACCESS_DENIED):
        DELETIONS[operation](file_io, folder)
    assert file_io.exists(f"{folder}/a")


def test_unproven_conditional_put_publishes_nothing(server, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    path = f"s3://{BUCKET}/unproven/snapshot-1"
    with s3_faults(server) as (faults, through):
        faults.ignores_conditions = True
        file_io = file_io_for(path, through)
        for status in (ENDED, *STATUSES):
            faults.plan("PUT", "*/.snapshot-1.*", status)
            with pytest.raises(errors.StorageError, match="nothing was published") as caught:
                file_io.publish(path, b"first")
            assert (caught.value.kind == errors.ACCESS_DENIED) == (status in (ENDED, 403))
        with pytest.raises(errors.UnsupportedFeatureError):
            file_io.publish(path, b"second")
        assert not file_io.exists(path)


@pytest.mark.hunt
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_write_repeated_after_any_fault_adds_rows_once(catalog, table, faults, proxy, after):
    write = (
        open_table(table.path, proxy[1])
        .new_write_builder()
        .with_commit_user("me")
        .with_commit_identifier
    )
    for done, number in enumerate(range(0, 100, STRIDE)):
        faults.fired.clear()
        faults.plan("*", "*", STATUSES[done % 4], after=after, skip=number)
        try:
            write(number).write(ROWS, EmbeddedExecutor())
        except errors.PaimonError:
            write(number).write(ROWS, EmbeddedExecutor())
        faults.plans.clear()
        assert table.new_read_builder().to_arrow().num_rows == 2 * (done + 2)
        if not faults.fired:
            break
    assert 10 < number < 99
