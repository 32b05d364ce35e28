"""What segments refuse for safety's sake: doubtful columns, changes of rows, paths of others.

And what a command that died, or came second, leaves.
"""

import pyarrow as pa
import pytest

from paimon_assets.engine.control.commit.file_store_commit import FileStoreCommit
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.maintenance.expire_snapshots import expire_snapshots
from paimon_assets.engine.control.maintenance.expiry_plan import Retention
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import (
    AlreadyExistsError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.evolution.schema_change import set_option
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from tests.testkit.foreign import rows, states, write

EXECUTOR = EmbeddedExecutor(threads=2)
AB = Schema.of({"a": "INT", "b": "STRING"})


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", AB)


@pytest.fixture
def landing(tmp_path):
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


def add(table, path, format_name="parquet", **more):
    source = SegmentSource(path=str(path), format=format_name, **more)
    return table.segments().add(source, EXECUTOR)


def read(table):
    found = table.new_read_builder().to_arrow()
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_columns_that_differ_in_letter_case_alone_are_refused(table, landing):
    data = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "A": ["y"]})
    write(landing / "1.parquet", data)
    with pytest.raises(InvalidInputError, match="'a' stands beside one that differs in letter"):
        add(table, landing)
    write(landing / "1.parquet", data.rename_columns(["a", "b", "C"]))
    add(table, landing)
    assert read(table) == [(1, "x")]


@pytest.mark.parametrize("has_vectors", ["false", "true"])
def test_no_verb_changes_rows_beside_another_format(catalog, landing, has_vectors):
    options = {"deletion-vectors.enabled": has_vectors}
    table = catalog.create_table(
        "db.changed", Schema.of({"a": "INT", "b": "STRING"}, options=options)
    )
    table.new_write_builder().write(rows((1, "own"), (2, "own")), EXECUTOR)
    write(landing / "o" / "1.orc", rows((1, "orc")))
    write(landing / "p" / "1.parquet", rows((1, "parquet")))
    before = states(landing)
    add(table, landing / "p")
    add(table, landing / "o", "orc")
    changes = table.new_row_change_builder()
    verbs = (
        lambda: changes.delete("a = 1"),
        lambda: changes.update({"b": "x"}, "a = 1"),
        lambda: changes.merge(rows((1, "m")), on=["a"]),
    )
    snapshot = table.latest_snapshot()
    for verb in verbs:
        with pytest.raises(UnsupportedFeatureError, match="mixed format segments") as caught:
            verb()
        assert caught.value.kind == "segment-mixed-formats"
    assert table.latest_snapshot() == snapshot
    table.segments().delete([2])
    changes.update({"b": "x"}, "a = 1")
    changes.delete("a = 2")
    assert read(table) == [(1, "x"), (1, "x")]
    assert states(landing) == before


def test_files_come_from_the_allowed_folders_wherever_names_lead(table, landing, tmp_path):
    write(landing / "a" / "1.parquet", rows((1, "x")))
    write(tmp_path / "secret" / "1.parquet", rows((2, "y")))
    (landing / "link").symlink_to(tmp_path / "secret")
    (landing / "b").mkdir()
    (landing / "b" / "2.parquet").symlink_to(tmp_path / "secret" / "1.parquet")
    (landing / "c" / "deep").mkdir(parents=True)
    (landing / "c" / "deep" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "alias").symlink_to(landing)
    allowed = table.segments(roots=[f"{tmp_path}/alias/", "s3://bucket/landing"])
    outside = ("link", "b", "c", "a/../../secret", "../landing-2", "../no/such")
    for path in [f"{landing}/{name}" for name in outside] + ["s3://bucket/landing-2/x"]:
        with pytest.raises(InvalidInputError, match=r"lies in none of the folders.*landing") as e:
            allowed.add(SegmentSource(path=path), EXECUTOR)
        assert e.value.kind == "segment-path-outside", path
    assert table.latest_snapshot() is None
    allowed.add(SegmentSource(path=f"{landing}/b/../a"), EXECUTOR)
    assert read(table) == [(1, "x")]
    write(landing / "a" / "2.parquet", rows((3, "z")))
    with pytest.raises(InvalidInputError, match="there are none"):
        table.segments(roots=[]).refresh([], EXECUTOR)
    allowed.refresh([], EXECUTOR)
    assert read(table) == [(1, "x"), (3, "z")]
    with pytest.raises(InvalidInputError, match="blank"):
        table.segments(roots=["/a", " "])


def test_no_option_makes_the_files_of_a_segment_the_table_s(catalog, table, landing):
    write(landing / "sales" / "1.parquet", rows((1, "x")))
    before = states(landing)
    add(table, landing / "sales")
    root = {"data-file.external-paths": f"file:{landing}"}
    for change in (table.alter, table.alter_checked, table.plan_alter):
        with pytest.raises(InvalidInputError, match="segment 0 lies in") as caught:
            change([set_option(*next(iter(root.items())))])
        assert caught.value.kind == "segment-path-owned"
    with pytest.raises(InvalidInputError, match="segment 0 lies in"):
        catalog.alter_table("db.t", [set_option(*next(iter(root.items())))])
    opened = table.copy(root)
    opened.new_write_builder().with_overwrite().write(rows((2, "y")), EXECUTOR)
    assert any(tag.name.startswith("__segment_hold_") for tag in table.tags.list())
    newest = Retention(min_count=1, max_count=1, time_ms=0, limit=9)
    expired = expire_snapshots(
        FileStore.open(LocalFileIO(), table.path, options=root), retention=newest
    )
    assert expired.snapshot_ids == (1,)
    assert states(landing) == before
    with pytest.raises(InvalidInputError, match="folder of the table's own files"):
        add(opened, landing / "sales")


def test_a_segment_file_that_became_a_link_out_of_its_roots_is_not_read(table, landing, tmp_path):
    file = landing / "a" / "1.parquet"
    write(file, rows((1, "x")))
    table.segments(roots=[str(landing)]).add(SegmentSource(path=str(landing / "a")), EXECUTOR)
    assert read(table) == [(1, "x")]
    secret = tmp_path / "secret.parquet"
    file.rename(secret)
    file.symlink_to(secret)
    with pytest.raises(InvalidInputError, match="lies in none of the folders"):
        read(table)


@pytest.mark.parametrize("format_name", ["parquet", "csv"])
def test_an_import_that_was_killed_is_finished_by_the_next_with_what_came_since(
    table, landing, monkeypatch, format_name
):
    def die(*_args, **_kwargs):
        raise KeyboardInterrupt

    write(landing / f"1.{format_name}", rows((1, "x")))
    with monkeypatch.context() as patched:
        patched.setattr(FileStoreCommit, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            add(table, landing, format_name)
    write(landing / f"2.{format_name}", rows((2, "y")))
    add(table, landing, format_name, only_new=True)
    assert read(table) == [(1, "x"), (2, "y")]
    assert [item.status for item in table.segments().listed()] == ["Success"]


@pytest.mark.parametrize("format_name", ["parquet", "csv"])
def test_of_two_imports_of_the_same_files_at_once_one_commits(
    table, landing, monkeypatch, format_name
):
    write(landing / f"1.{format_name}", rows((1, "x")))
    commit = FileStoreCommit.commit

    def overtaken(self, *args, **kwargs):
        monkeypatch.setattr(FileStoreCommit, "commit", commit)
        add(table, landing, format_name)
        return commit(self, *args, **kwargs)

    monkeypatch.setattr(FileStoreCommit, "commit", overtaken)
    with pytest.raises(AlreadyExistsError, match="another command added it as segment 1"):
        add(table, landing, format_name)
    assert read(table) == [(1, "x")]
    assert [item.status for item in table.segments().listed()] == ["Success"]
