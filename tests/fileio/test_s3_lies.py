"""Something in front of a store answers 200 with pages of its own: no file in use is deleted."""

import os
import random
from collections import Counter
from itertools import count

import pyarrow as pa
import pytest
from msgspec.structs import replace

from paimon_assets.engine import errors
from paimon_assets.engine.fileio.opening import file_io_for
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog, open_table
from paimon_assets.engine.table.upkeep.maintenance import MaintenanceTask
from tests.faults.fuzz import forget_manifests
from tests.testkit.effort import often
from tests.testkit.http_servers import BUCKET as GOOGLE_BUCKET
from tests.testkit.http_servers import GoogleServer, Say, ScriptedServer
from tests.testkit.s3_faults import (
    CUT,
    EMPTY,
    ERROR,
    HTML,
    HTML_ETAG,
    NO_LISTINGS,
    NOT_FOUND,
    RESET,
    SILENT,
)
from tests.testkit.s3_server import BUCKET, boto3_client
from tests.testkit.tables import new_table, read

SCHEMA = Schema.of({"id": "BIGINT"}, options={"commit.max-retries": "2"})
_CLIENTS = count(11)
SEED = os.environ.get("PAIMON_FUZZ_SEED", "1")


@pytest.fixture
def table(proxy, faults, request):
    """Return a table of five snapshots through the proxy; tag 'old' alone keeps the first."""
    catalog = open_catalog(f"s3://{BUCKET}/lies-{abs(hash(request.node.name))}", proxy[1])
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA)
    for number in range(5):
        _append(table, number)
        if not number:
            table.tags.create("old")
            table.overwrite(pa.table({"id": [100]}))
    return table


def _append(table, number):
    table.append(pa.table({"id": pa.array([number], pa.int64())}))


def _upkeep(table, task, before=None):
    upkeep = replace(table.maintenance(), orphans_older_than_ms=0, expire_before=before)
    return upkeep.run(task)


def _ids(opened):
    return opened.new_read_builder().to_arrow()["id"].to_pylist()


def _all_rows(path, server):
    """Return the rows of each snapshot and tag, straight from the server."""
    forget_manifests()
    # Another client each time, which has read no file.
    opened = open_table(path, {**server, "s3.connect-timeout": f"{next(_CLIENTS)} s"})
    state = {
        snapshot.id: sorted(_ids(opened.copy({"scan.snapshot-id": str(snapshot.id)})))
        for snapshot in opened.snapshots()
    }
    tags = {
        tag.name: sorted(_ids(opened.copy({"scan.tag-name": tag.name})))
        for tag in opened.tags.list()
    }
    return state | tags


DELETIONS = {
    "clean": lambda table: _upkeep(table, MaintenanceTask.CLEAN_ORPHANS),
    "expire": lambda table: _upkeep(table, MaintenanceTask.EXPIRE_SNAPSHOTS, 5),
    "delete tag": lambda table: table.tags.delete("new"),
}


@pytest.mark.parametrize("lie", [HTML, ERROR, EMPTY])
@pytest.mark.parametrize("folder", ["snapshot", "tag", "*"])
@pytest.mark.parametrize("operation", DELETIONS)
def test_invalid_listing_deletes_no_file_in_use(table, faults, server, operation, folder, lie):
    table.tags.create("new", 3)
    before = _all_rows(table.path, server)
    faults.lie(lie, f"*/{folder}/" if lie == EMPTY else f"*/{folder}*")
    text = ""
    try:
        DELETIONS[operation](table)
    except errors.PaimonError as error:
        text = str(error)
    assert ("storage" in text) if faults.fired and lie != EMPTY else True
    faults.reset()
    after = _all_rows(table.path, server)
    assert after.items() <= before.items()
    assert {"old", 6} <= after.keys()


@pytest.mark.parametrize("lie", NO_LISTINGS)
def test_invalid_page_does_not_end_listing(proxy, faults, server, lie):
    folder = f"s3://{BUCKET}/pages{lie}"
    objects = boto3_client(server)
    for number in range(1_001):
        objects.put_object(Bucket=BUCKET, Key=f"pages{lie}/{number}", Body=b"")
    file_io = file_io_for(folder, proxy[1])
    faults.lie(lie, "*", skip=1)
    for listing in (file_io.list_directory, file_io.list_tree, file_io.delete_directory):
        with pytest.raises(errors.StorageError, match="no listing"):
            listing(folder)
        faults.plans.clear()
        faults.lie(lie, "*", skip=1)
    faults.reset()
    assert len(file_io.list_directory(folder)) == 1_001


@pytest.mark.parametrize("lie", NO_LISTINGS)
def test_failed_listing_is_not_absence(table, proxy, faults, lie):
    warehouse = table.path.rpartition("/db.db")[0]
    looks = {
        "databases": lambda catalog: catalog.list_databases(),
        "tables": lambda catalog: catalog.list_tables("db"),
        "open": lambda catalog: catalog.get_table("db.t"),
        "drop": lambda catalog: catalog.drop_table("db.t"),
        "drop if there": lambda catalog: catalog.drop_table("db.t", ignore_if_missing=True),
        "drop database": lambda catalog: catalog.drop_database("db"),
        "rename": lambda catalog: catalog.rename_table("db.t", "db.u"),
    }
    for look in looks.values():
        faults.reset()
        faults.lie(lie, "*")
        with pytest.raises(errors.StorageError, match="no listing"):
            look(open_catalog(warehouse, proxy[1]))
    faults.reset()
    assert open_catalog(warehouse, proxy[1]).list_tables("db") == ["t"]
    assert len(_ids(table)) == 5


@pytest.mark.parametrize("lie", [HTML, ERROR])
def test_falsely_reported_copy_keeps_table(table, proxy, faults, lie):
    catalog = open_catalog(table.path.rpartition("/db.db")[0], proxy[1])
    faults.plan("PUT", "*/u/manifest/*", lie)
    with pytest.raises(errors.StorageError, match=r"was copied|storage failed"):
        catalog.rename_table("db.t", "db.u")
    assert faults.fired
    assert len(_ids(table)) == 5


@pytest.mark.parametrize("lie", [HTML, ERROR])
def test_falsely_reported_deletion_keeps_files_of_snapshot(table, faults, server, lie):
    before = _all_rows(table.path, server)
    faults.plan("DELETE", "*/snapshot/snapshot-3", lie)
    with pytest.raises(errors.StorageError, match="was deleted, and has it"):
        _upkeep(table, MaintenanceTask.EXPIRE_SNAPSHOTS, 5)
    after = _all_rows(table.path, server)
    assert after.items() <= before.items()
    assert 3 in after


def test_foreign_404_proves_nothing(table, faults, server, proxy):
    path = f"{table.path}/snapshot/snapshot-1"
    faults.plan("GET", "*/snapshot/snapshot-1", NOT_FOUND)
    with pytest.raises(errors.StorageError, match="without S3's own code"):
        file_io_for(path, proxy[1]).read_bytes(path)


def _delete_tag(table, draw):
    table.tags.delete(draw.choice([tag.name for tag in table.tags.list()]))


OPERATIONS = {
    "append": lambda table, draw: _append(table, draw.randrange(10**9)),
    "overwrite": lambda table, draw: table.overwrite(pa.table({"id": [draw.randrange(10**9)]})),
    "delete": lambda table, draw: table.delete(f"id > {draw.randrange(10**9)}"),
    "compact": lambda table, _: table.compact(full=True),
    "tag": lambda table, draw: table.tags.create(f"t{draw.randrange(10**6)}"),
    "delete tag": _delete_tag,
    "expire": lambda table, _: _upkeep(
        table, MaintenanceTask.EXPIRE_SNAPSHOTS, max(1, table.latest_snapshot().id - 2)
    ),
    "clean": lambda table, _: _upkeep(table, MaintenanceTask.CLEAN_ORPHANS),
}
LYING = (*NO_LISTINGS, EMPTY, NOT_FOUND, CUT, RESET, 403, 500, 503)


def _plan_false_answers(faults, draw):
    """Plan false answers: to listings of a folder, or to the n-th request of a kind."""
    lie = draw.choice(LYING)
    if draw.random() < 0.5:
        folder = draw.choice(("snapshot", "tag", "branch", "changelog", "schema", ""))
        faults.lie(lie, f"*{folder}*", skip=draw.randrange(3), times=draw.choice((1, 2, 10**6)))
    else:
        method = draw.choice(("GET", "GET", "PUT", "POST", "DELETE", "HEAD", "*"))
        if lie == EMPTY or (lie == NOT_FOUND and method == "HEAD"):
            lie = HTML  # S3's own words about one file: nothing could doubt them
        faults.plan(method, "*", lie, skip=draw.randrange(12))


@pytest.mark.parametrize("seed", range(often(2)))
def test_false_answers_lose_no_row_or_file(table, faults, server, seed):
    """A model knows the rows of each snapshot and tag; whatever answers lie, they stay."""
    draw, happened = random.Random(f"{SEED}/{seed}"), Counter()  # noqa: S311
    known = _all_rows(table.path, server)
    for step in range(30):
        name = draw.choice(list(OPERATIONS))
        before = max(each for each in known if isinstance(each, int))
        _plan_false_answers(faults, draw)
        is_done = False
        try:
            OPERATIONS[name](table, draw)
            is_done = True
        except (errors.PaimonError, IndexError, AttributeError) as error:
            if not isinstance(error, errors.PaimonError) and name not in ("delete tag", "expire"):
                raise
            happened[type(error).__name__] += bool(faults.fired)
        happened["lies"] += len(faults.fired)
        happened["operations"] += 1
        faults.reset()
        now = _all_rows(table.path, server)
        where = f"seed {SEED}/{seed}, step {step}: {name}"
        newest = max(each for each in now if isinstance(each, int))
        assert newest >= before, where
        if is_done and name in ("append", "overwrite"):
            assert newest > before, where
        for each in known.keys() & now.keys():
            assert now[each] == known[each], (where, each)
        if name not in ("expire", "delete tag"):
            assert known.keys() <= now.keys(), where
        known = now
        if not any(isinstance(each, str) for each in known):
            table.tags.create("again")
            known = _all_rows(table.path, server)
    print(dict(happened))  # noqa: T201 - the counts of a hunt
    assert happened["lies"] > 5


def test_falsely_reported_publish_is_repeated(table, faults, server):
    faults.plan("PUT", "*/snapshot/snapshot-7", HTML_ETAG)
    _append(table, 7)
    assert faults.fired
    assert sorted(_all_rows(table.path, server)[7]) == [1, 2, 3, 4, 7, 100]


@pytest.mark.parametrize("name", ["manifest/*", "bucket-0/*"])
def test_falsely_reported_put_is_no_commit(table, faults, server, name):
    before = _all_rows(table.path, server)
    faults.plan("PUT", f"*/{name}", HTML_ETAG)
    with pytest.raises((errors.StorageError, errors.CommitUnknownError), match="lacks it"):
        _append(table, 7)
    assert faults.fired
    assert _all_rows(table.path, server) == before


def _file_io_of(odd):
    options = {"s3.endpoint": odd.uri, "s3.access-key": "a", "s3.secret-key": "b"}
    return file_io_for("s3://b/k", options)


def _read_a_file(file_io):
    return file_io.open_input("s3://b/x", 100).read()


def _read_ranges(file_io):
    return file_io.read_ranges("s3://b/x", [(0, 10), (90, 100)])


@pytest.mark.parametrize("read", [_read_a_file, _read_ranges])
@pytest.mark.parametrize("size", [0, 1, 50, 91, 99])
def test_body_shorter_than_its_headers_is_refused(read, size):
    with ScriptedServer().running() as odd:
        headers = {"Content-Range": "bytes 0-99/100", "ETag": '"x"'}
        headers["Last-Modified"] = "Wed, 21 Oct 2015 07:28:00 GMT"
        odd.will(Say(206, b"x" * size, headers))
        with pytest.raises((OSError, errors.StorageError), match=r"it returned .* bytes of"):
            read(_file_io_of(odd))


def _page(*names, following="", prefix="x/"):
    keys = "".join(
        f"<Contents><Key>{name}</Key><Size>1</Size>"
        "<LastModified>2024-01-01T00:00:00Z</LastModified></Contents>"
        for name in names
    )
    more = f"<NextContinuationToken>{following}</NextContinuationToken>" if following else ""
    text = f"<ListBucketResult><Prefix>{prefix}</Prefix>{keys}{more}</ListBucketResult>"
    return Say(200, text.encode())


@pytest.mark.parametrize(
    ("pages", "why"),
    [
        ([_page("x/a", following="t"), _page("x/b", following="t")], "its pages repeat"),
        ([_page(following="t"), _page(following="u"), _page(following="t")], "its pages repeat"),
        ([_page("x/a", following="t"), _page("x/a", following="u")], "its pages repeat"),
        ([_page(prefix="y/")], "it is of 'y/'"),
    ],
)
def test_listing_that_repeats_or_is_of_another_folder_ends(pages, why):
    with ScriptedServer().running() as odd:
        odd.will(*pages)
        with pytest.raises(errors.StorageError, match=why):
            _file_io_of(odd).list_directory("s3://b/x")


def test_repeated_name_is_listed_once():
    with ScriptedServer().running() as odd:
        odd.will(_page("x/a", "x/b", "x/b", following="t"), _page("x/b", "x/c"))
        listed = _file_io_of(odd).list_directory("s3://b/x")
    assert [each.name for each in listed] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("status", "code", "way_out"),
    [
        (501, "NotImplemented", "does not take this request"),
        (404, "NoSuchKey", "does not take this request"),
        (400, "ExpiredToken", "give new ones"),
    ],
)
def test_put_error_names_way_out(status, code, way_out):
    with ScriptedServer().running() as odd:
        options = {"s3.endpoint": odd.uri, "s3.access-key": "a", "s3.secret-key": "b"}
        odd.will(Say(status, f"<Error><Code>{code}</Code></Error>".encode()))
        with pytest.raises(errors.StorageError, match=way_out):
            file_io_for("s3://b/k", options).write_bytes("s3://b/k", b"x")


@pytest.mark.parametrize("look", ["read_bytes", "list_directory", "exists", "delete_file"])
def test_silent_server_times_out_with_option_name(faults, proxy, look):
    file_io = file_io_for(f"s3://{BUCKET}/a", {**proxy[1], "s3.read-timeout": "1 s"})
    faults.plan("*", "*", SILENT)
    with pytest.raises(errors.StorageError, match=r"s3\.read-timeout"):
        getattr(file_io, look)(f"s3://{BUCKET}/silent/a")
    assert faults.fired


@pytest.mark.parametrize(
    "endpoint", ["http://", "http://a:port", "htp://a:1", "http://a b", "http:///x", "://"]
)
@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs"])
def test_endpoint_that_is_no_url_is_refused(scheme, endpoint):
    keys = {"s3": ("access-key", "secret-key"), "abfs": ("account-name", "account-key")}
    options = {f"{scheme}.{key}": "aGk=" for key in keys.get(scheme, ())}
    options |= {"gs.token": "anon"} if scheme == "gs" else {}
    options[f"{scheme}.endpoint"] = endpoint
    with pytest.raises(errors.InvalidInputError, match=rf"{scheme}\.endpoint"):
        file_io_for(f"{scheme}://b/k", options).read_bytes(f"{scheme}://b/k")


def test_endpoint_without_scheme_gets_tls_and_error_shows_it(server):
    options = {**server, "s3.endpoint": server["s3.endpoint"].removeprefix("http://")}
    file_io = file_io_for("s3://b/k", options)
    for look in (file_io.read_bytes, file_io.list_directory):
        with pytest.raises(errors.StorageError, match="begin the endpoint with http://"):
            look("s3://b/k")


def test_invalid_duration_is_refused(server):
    with pytest.raises(errors.InvalidInputError, match=r"s3\.read-timeout"):
        file_io_for("s3://b/k", {**server, "s3.read-timeout": "soon"}).read_bytes("s3://b/k")


@pytest.mark.parametrize("lie", [HTML, 403])
def test_commit_without_lookup_deletes_nothing(table, faults, server, lie):
    faults.plan("GET", "*/schema/schema-0", lie)
    with pytest.raises(errors.CommitUnknownError):
        _append(table, 7)
    assert faults.fired
    assert sorted(_all_rows(table.path, server)[7]) == [1, 2, 3, 4, 7, 100]


PAGES = {
    "html": b"<html><body>Sign in</body></html>",
    "error": b"<?xml version='1.0'?><Error><Code>SlowDown</Code></Error>",
    "other root": b"<Enumeration/>",
    "json": b'{"error": {"code": 503}}',
    "nothing": b"{}",
}
FOLDERS = ("", "tag", "snapshot", "manifest", "schema", "branch", "bucket-0", "changelog")


@pytest.fixture
def google():
    with GoogleServer().running() as server:
        yield server


def a_table(server):
    """Return a table of three snapshots; tag 'old' alone has the first one's rows."""
    catalog = open_catalog(f"gs://{GOOGLE_BUCKET}/lake", server.options)
    table = new_table(catalog, {"id": "BIGINT"}, (1,))
    table.tags.create("old")
    table.overwrite(pa.table({"id": [2]}))
    table.append(pa.table({"id": [3]}))
    return table


@pytest.mark.parametrize("lie", PAGES)
def test_invalid_page_deletes_no_file_in_use(google, lie):
    table, outcomes = a_table(google), Counter()
    whole = dict(google.objects)
    for folder in FOLDERS:
        for task in (MaintenanceTask.EXPIRE_SNAPSHOTS, MaintenanceTask.CLEAN_ORPHANS, "drop"):
            google.objects = dict(whole)
            forget_manifests()
            google.lie = lambda prefix, folder=folder: (
                PAGES[lie] if f"/{folder}" in f"/{prefix}" else None
            )
            upkeep = replace(table.maintenance(), orphans_older_than_ms=0, expire_before=3)
            try:
                if task == "drop":
                    open_catalog(f"gs://{GOOGLE_BUCKET}/lake", google.options).drop_table("db.t")
                else:
                    upkeep.run(task)
                outcomes["done"] += 1
            except errors.PaimonError as error:
                outcomes[type(error).__name__] += 1
            google.lie = lambda _: None
            forget_manifests()
            if task == "drop":
                kept = set(google.objects)
                assert kept == set(whole) or not any("/db.db/t/" in f"/{key}" for key in kept)
            else:
                assert read(table.refresh()) == [(2,), (3,)]
                assert read(table.copy({"scan.tag-name": "old"})) == [(1,)]
    assert outcomes["StorageError"] >= 4


def test_failed_listing_of_azure_is_failure():
    with ScriptedServer().running() as server:
        options = {"az.endpoint": server.uri, "az.account-name": "a", "az.account-key": "YQ=="}
        file_io = file_io_for("az://c/t", options)
        asks = (
            lambda: file_io.list_directory("az://c/t"),
            lambda: file_io.list_tree("az://c/t"),
            lambda: file_io.is_directory("az://c/t"),
        )
        for body in (*PAGES.values(), b"", b"<ListBucketResult></ListBucketResult>"):
            for ask in asks:
                server.will(Say(body=body))
                with pytest.raises(errors.StorageError):
                    ask()
        server.will(Say(body=b"<EnumerationResults><Blobs/></EnumerationResults>"))
        assert file_io.list_directory("az://c/t") == []
