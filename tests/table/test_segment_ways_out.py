"""Refusals of segments, each with its way out taken."""

from pathlib import Path

from paimon_assets import SegmentSource, set_option
from tests.testkit.foreign import add_segment, rows
from tests.testkit.foreign import write as write_file
from tests.testkit.tables import read, write
from tests.testkit.ways import Place, take, ways

COLUMNS = {"a": "INT", "b": "STRING"}
PARTITION = "b:string"
ROWS = rows((1, "x"))


def folder(at, name="in/1.parquet"):
    """Return the folder of a file, which has one row if there was none."""
    path = at.path / name
    if not path.exists():
        write_file(path, ROWS)
    return path.parent


def add(at, name="in/1.parquet", form="parquet", path=None, **more):
    return add_segment(at.table(COLUMNS), path or folder(at, name), form, **more)


def add_part(partition, name="parts/b=x/1.parquet", above=""):
    """Return a call that adds a folder with a partition to a table with one."""

    def add(at):
        table = at.table(COLUMNS, partition_keys=["b"])
        path = at.path / name
        if not path.exists():
            write_file(path, ROWS.select(["a"]))
        return add_segment(table, at.path / "parts" / above, partition=partition)

    return add


def plan_in(*roots):
    return lambda at: (
        at.table(COLUMNS)
        .segments(roots=[str(at.path / root) if root else root for root in roots])
        .plan(SegmentSource(path=str(folder(at))))
    )


def deep(at):
    write_file(at.path / "/".join(["in"] * 110) / "1.parquet", ROWS)
    add(at, path=at.path / "in")


def change_file(at):
    add(at)
    write_file(folder(at) / "1.parquet", rows((1, "x"), (2, "y")))
    read(at.table())


def empty_folder(at):
    add(at)
    (folder(at) / "1.parquet").unlink()
    at.table().segments().refresh([0])


def twice(at, **more):
    add(at)
    add(at, **more)


def below(name):
    def add_folder(at):
        (folder(at) / name).mkdir()
        add(at)

    return add_folder


def own_rows(at):
    return write(at.table(COLUMNS, primary_keys=["a"], options={"bucket": "1"}), (1, "x"))


def branch(at):
    add(at)
    if "b" not in [each.name for each in at.table().branches.list()]:
        at.table().branches.create("b")
    return at.table().at_branch("b")


def with_external(at, path):
    return at.table().alter([set_option("data-file.external-paths", f"file://{at.path / path}")])


WAYS = [
    ("segment-file-changed", "Restore it, refresh the segment", change_file,
     lambda at: (at.table().segments().refresh([0]), read(at.table()))),
    ("segment-file-changed", "or delete the segment", change_file,
     lambda at: (at.table().segments().delete([0]), read(at.table()))),
    ("segment-format", "a segment is one of avro",
     lambda at: add(at, form="pdf"), add),
    ("segment-mixed-formats", "delete these first",
     lambda at: (add(at, "in/1.orc", "orc"), at.table().delete("a = 1")),
     lambda at: (at.table().segments().delete([0]), at.table().delete("a = 1"))),
    ("segment-no-data", "name the folder above the files",
     lambda at: (folder(at), (at.path / "empty").mkdir(), add(at, path=at.path / "empty")),
     add),
    ("segment-no-data", "delete the segment instead", empty_folder,
     lambda at: at.table().segments().delete([0])),
    ("segment-not-found", "show its segments",
     lambda at: (add(at), at.table().segments().delete([7])),
     lambda at: at.table().segments().delete(
         [int(number) for number in at.table().segments().shown()["ID"].to_pylist()])),
    ("segment-option", "it has",
     lambda at: add(at, "in/1.csv", "csv", options={"separator": ";"}),
     lambda at: add(at, "in/1.csv", "csv", options={"sep": ","})),
    *(
        ("segment-other-table", "write the rows of that table as plain files", below(name),
         lambda at: add(at, "plain/1.parquet"))
        for name in ("_delta_log", "base_0000012_v0000123", "delta_0000001_0000002",
                     "delete_delta_0000001_0000001_0000")
    ),
    ("segment-own", "name segments that were imported",
     lambda at: (write(at.table(COLUMNS), (1, "x")), at.table().segments().refresh([0])),
     lambda at: (add(at), at.table().segments().refresh([1]))),
    ("segment-own", "Delete its rows by a condition, or roll back",
     lambda at: (own_rows(at), at.table().segments().delete([0])),
     lambda at: at.table().delete("a = 1")),
    ("segment-partition-levels", "should be b=", add_part(PARTITION, "parts/c=x/1.parquet"),
     lambda at: ((at.path / "parts" / "c=x").rename(at.path / "parts" / "b=x"),
                 add_part(PARTITION)(at))),
    ("segment-partition-differs", "Give partition = b:string for table", add_part("b:int"),
     add_part(PARTITION)),
    ("segment-partition-option", "leave it out", lambda at: add(at, partition=PARTITION), add),
    ("segment-partition-option", "such as name:string,age:int",
     add_part("b"), add_part(PARTITION)),
    ("segment-partition-path", "Name the folder above b=", add_part(PARTITION, above="b=x"),
     add_part(PARTITION)),
    ("segment-partition-required", "give partition = b:string",
     add_part(None), add_part(PARTITION)),
    ("segment-partition-type", "write a type such as string", add_part("b:text"),
     add_part(PARTITION)),
    ("segment-path", "name the folder that holds the files",
     lambda at: add(at, path=" "), add),
    ("segment-path-depth", "name one further down", deep,
     lambda at: add(at, path=at.path / "/".join(["in"] * 60))),
    ("segment-path-duplicate", "Delete that segment first", twice,
     lambda at: (at.table().segments().delete([0]), add(at))),
    ("segment-path-duplicate", "or take only new files", twice,
     lambda at: add(at, only_new=True)),
    ("segment-path-outside", "Name a folder below one of them",
     plan_in("other"), plan_in("in")),
    ("segment-path-outside", "or have its folder added to that list", plan_in("other"),
     plan_in("other", "in")),
    ("segment-path-overlap", "Take only new files",
     lambda at: (add(at, "up/in/1.parquet"), add(at, path=at.path / "up")),
     lambda at: add(at, path=at.path / "up", only_new=True)),
    ("segment-path-owned", "Name a folder that no table owns",
     lambda at: add(at, path=Path(at.table(COLUMNS, (1, "x")).path) / "bucket-0"), add),
    ("segment-path-owned", "Name another folder",
     lambda at: (add(at), with_external(at, "in")), lambda at: with_external(at, "out")),
    ("segment-path-owned", "or delete the segment first",
     lambda at: (add(at), with_external(at, "in")),
     lambda at: (at.table().segments().delete([0]), with_external(at, "in"))),
    ("segment-roots", "name it in full", plan_in(""), plan_in("in")),
    ("segment-schema", "import it into a table that has them",
     lambda at: (at.table({"c": "INT"}), add(at)),
     lambda at: add_segment(at.table(COLUMNS, name="db.u"), folder(at))),
    ("segment-table", "open that to change them", lambda at: branch(at).segments().delete([0]),
     lambda at: at.table().segments().delete([0])),
]  # fmt: skip


@ways(WAYS)
def test_way_out_of_segment_refusal_works(way, tmp_path):
    take(way, Place(tmp_path))
