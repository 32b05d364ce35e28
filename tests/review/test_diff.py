"""The difference of two states beside a model: both states read whole, and compared in Python."""

import datetime as dt
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_assets.engine.errors import NotFoundError
from paimon_assets.review import diff
from tests.testkit.effort import often
from tests.testkit.errors import refused
from tests.testkit.tables import EXECUTOR, compact, new_catalog_in, new_table, write

COLUMNS = {
    "id": "INT NOT NULL",
    "p": "STRING NOT NULL",
    "v": "DOUBLE",
    "list": "ARRAY<INT>",
    "map": "MAP<STRING, INT>",
}
KEYED = {"bucket": "2"}
KINDS = {
    "bag": {},
    "bag in buckets": {"bucket": "2", "bucket-key": "id"},
    "bag with vectors": {"deletion-vectors.enabled": "true"},
    "row ids": {"row-tracking.enabled": "true"},
    "columns of rows": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
    "deduplicate": KEYED,
    "dynamic": {"bucket": "-1"},
    "vectors": {**KEYED, "deletion-vectors.enabled": "true"},
    "partial-update": {**KEYED, "merge-engine": "partial-update"},
    "aggregation": {
        **KEYED, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum",
    },
    "first-row": {**KEYED, "merge-engine": "first-row", "changelog-producer": "lookup"},
}  # fmt: skip
DELETES = {"bag", "bag in buckets", "bag with vectors", "row ids", "deduplicate", "vectors"}


def is_keyed(kind):
    return "bag" not in kind and kind not in ("row ids", "columns of rows")


@st.composite
def rows(draw):
    ids = draw(st.lists(st.integers(0, 12), min_size=1, max_size=8, unique=True))
    return [
        (
            each,
            draw(st.sampled_from("ab")),
            draw(st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5])),
            draw(st.sampled_from([None, [], [1], [1, 2], [2, 1], [None]])),
            draw(st.sampled_from([None, {}, {"a": 1}, {"b": 1, "a": 1}])),
        )
        for each in ids
    ]


STEPS = st.lists(
    st.one_of(
        rows(),
        st.tuples(st.just("delete"), st.integers(0, 12)),
        st.just("compact"),
        st.just("full"),
        st.just("add"),
        st.just("rename"),
    ),
    min_size=1,
    max_size=6,
)


def do(table, step, kind, number):
    match step:
        case list():
            width = len(table.schema.fields) - len(COLUMNS)
            write(table, *((*row, *(range(number, number + width))) for row in step))
        case ("delete", at) if kind in DELETES:
            compact(table)
            table.delete(f"id = {at}", executor=EXECUTOR)
        case "compact" | "full":
            compact(table, "full" if step == "full" else "minor")
        case "add":
            table = table.alter(
                [{"action": "addColumn", "fieldNames": [f"n{number}"], "dataType": "INT"}]
            )
        case "rename" if "map" in table.schema.by_name:
            table = table.alter(
                [{"action": "renameColumn", "fieldNames": ["map"], "newName": f"m{number}"}]
            )
    return table


def state(table, version, kind):
    """Return identity → (partition, column id → text) of all rows; for bags a list."""
    builder = table.new_read_builder().at_snapshot(version)
    schema = builder.read_schema()
    ids = {field.name: field.id for field in schema.fields}
    tracked = ["_ROW_ID"] if not is_keyed(kind) and "bag" not in kind else []
    result = []
    for row in builder.with_columns([*ids, *tracked]).to_arrow(EXECUTOR).to_pylist():
        values = {
            ids[name]: repr(sorted(v, key=str) if name.startswith("m") and v else v)
            for name, v in row.items()
            if name in ids
        }
        key = (row["id"], row["p"]) if is_keyed(kind) else row.get("_ROW_ID")
        result.append((key, row["p"], values))
    return result


def model_of(before, after, names, kind):
    """Return partition → (added, removed, changed), and column → changed rows."""
    numbers, columns = {}, Counter()

    def add(partition, place):
        numbers.setdefault(f"p={partition}", [0, 0, 0])[place] += 1

    def texts_of(values):  # a column that was dropped is not compared, one that was added was null
        return tuple((each, values.get(each, "None")) for each in names)

    if "bag" in kind:
        old, new = (Counter((p, texts_of(v)) for _, p, v in rows) for rows in (before, after))
        for place, (rows, other) in enumerate(((new, old), (old, new))):
            for (partition, _), count in (rows - other).items():
                for _ in range(count):
                    add(partition, place)
        return numbers, columns
    old, new = ({(key, p): texts_of(v) for key, p, v in rows} for rows in (before, after))
    for key in old.keys() | new.keys():
        if key not in old or key not in new:
            add(key[1], 0 if key in new else 1)
        elif old[key] != new[key]:
            add(key[1], 2)
            columns.update(
                names[each]
                for (each, left), (_, right) in zip(old[key], new[key], strict=True)
                if left != right
            )
    return numbers, columns


@pytest.mark.hunt
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=often(25))
@given(first=STEPS, then=STEPS, memory=st.sampled_from(["256 mb", "64 b"]), on_branch=st.booleans())
def test_diff_equals_difference_of_states(tmp_path_factory, kind, first, then, memory, on_branch):
    catalog = new_catalog_in(tmp_path_factory.mktemp("w"))
    table = new_table(
        catalog,
        COLUMNS,
        partition_keys=["p"],
        primary_keys=["id", "p"] if is_keyed(kind) else [],
        options={**KINDS[kind], "write-buffer-size": memory},
    )
    write(table, (1, "a", 1.5, [1], {"a": 1}))
    for number, step in enumerate(first):
        table = do(table, step, kind, number)
    start = table.latest_snapshot().id
    main = table
    if on_branch:
        table.branches.create("dev", snapshot_id=start)
        table = table.at_branch("dev")
    for number, step in enumerate(then, 10):
        table = do(table, step, kind, number)
    end = table.latest_snapshot().id
    before, after = state(main, start, kind), state(table, end, kind)
    names = {f.id: f.name for f in table.new_read_builder().at_snapshot(end).read_schema().fields}

    shown = diff(main, f"main@{start}", f"dev@{end}" if on_branch else end, executor=EXECUTOR)

    numbers, columns = model_of(before, after, names, kind)
    assert {
        name: [rows.added, rows.removed, rows.changed] for name, rows in shown.partitions.items()
    } == numbers
    assert shown.rows.columns == columns
    total = [sum(each) for each in zip(*numbers.values(), strict=True)] or [0, 0, 0]
    assert [shown.rows.added, shown.rows.removed, shown.rows.changed] == total
    assert len(shown.rows.examples) == min(10, sum(total))


KEYS = {
    "number": ({"id": "INT NOT NULL"}, lambda n: (n,)),
    "day": ({"id": "DATE NOT NULL"}, lambda n: (dt.date(1960, 1, 1) + dt.timedelta(n * 9),)),
    "text": ({"id": "STRING NOT NULL"}, lambda n: (f"k{n}",)),
    "pair": ({"id": "INT NOT NULL", "p": "STRING NOT NULL"}, lambda n: (n // 3, "abc"[n % 3])),
}
ENGINES = {
    name: KINDS[name] for name in ("deduplicate", "partial-update", "aggregation", "first-row")
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("key", KEYS)
@settings(max_examples=often(8))
@given(data=st.data())
def test_few_changes_of_many_rows_are_found(tmp_path_factory, key, engine, data):
    """Records of the changed keys alone are merged; each shared file is decoded once."""
    columns, key_of = KEYS[key]
    table = new_table(
        new_catalog_in(tmp_path_factory.mktemp("w")),
        {**columns, "v": "DOUBLE", "w": "INT"},
        primary_keys=list(columns),
        options={**ENGINES[engine], "read.batch-size": "64"},
    )
    for start in (0, 200):
        write(table, *((*key_of(n), n / 2, n) for n in range(start, 400, 2)))
    compact(table, data.draw(st.sampled_from(["full", "minor"])))
    table.tags.create("before")
    old = {tuple(row.values())[: len(columns)]: row for row in table.to_arrow().to_pylist()}
    for _ in range(data.draw(st.integers(1, 2))):
        chosen = data.draw(st.lists(st.integers(0, 410), min_size=1, max_size=8, unique=True))
        write(table, *((*key_of(n), data.draw(st.sampled_from([n / 2, 1.0])), n) for n in chosen))
    if engine == "deduplicate":
        table.delete("w = 10 or w = 77", executor=EXECUTOR)
    new = {tuple(row.values())[: len(columns)]: row for row in table.to_arrow().to_pylist()}

    shown = diff(table, "before", "latest", executor=EXECUTOR)

    both = old.keys() & new.keys()
    changed = [each for each in both if old[each] != new[each]]
    assert shown.rows.added == len(new.keys() - old.keys())
    assert shown.rows.removed == len(old.keys() - new.keys())
    assert shown.rows.changed == len(changed)
    assert shown.rows.columns == {
        name: count
        for name in ("v", "w")
        if (count := sum(old[each][name] != new[each][name] for each in changed))
    }


def test_smallest_and_largest_key_are_found(tmp_path):
    ends = [-(2**63), *range(100), 2**63 - 1]
    table = new_table(
        tmp_path,
        {"id": "BIGINT NOT NULL", "v": "INT"},
        *((key, 0) for key in ends),
        primary_keys=["id"],
        options={"bucket": "1"},
    )
    compact(table)
    before = table.latest_snapshot().id
    write(table, (ends[0], 1), (ends[-1], 1))
    assert diff(table, before, "latest", executor=EXECUTOR).rows.changed == 2


def test_only_files_that_differ_are_read(tmp_path):
    table = new_table(tmp_path, {"id": "INT", "v": "INT"})
    for number in range(5):
        write(table, *((number * 100 + each, 0) for each in range(100)))
    start = table.latest_snapshot().id
    table.delete("id = 7", executor=EXECUTOR)
    shown = diff(table, start, executor=EXECUTOR)
    assert (shown.rows.removed, shown.rows.added, shown.rows_read) == (1, 0, 199)


def test_key_that_moves_to_another_partition_is_changed_row(tmp_path):
    table = new_table(
        tmp_path,
        {"id": "INT", "p": "STRING", "v": "INT"},
        (1, "a", 1),
        primary_keys=["id"],
        partition_keys=["p"],
    )
    write(table, (1, "b", 1), (2, "b", 2))
    shown = diff(table, 1, executor=EXECUTOR)
    assert (shown.rows.added, shown.rows.removed, shown.rows.changed) == (1, 0, 1)
    assert (shown.rows.columns, shown.partitions) == ({"p": 1}, {})


def test_rescaled_partition_has_no_difference(tmp_path):
    table = new_table(
        tmp_path, {"id": "INT", "v": "INT"}, (1, 1), (2, 2), primary_keys="id",
        options={"bucket": "1"},
    )  # fmt: skip
    table.rescale(EXECUTOR, buckets=3)
    shown = diff(table, 1, executor=EXECUTOR)
    assert (bool(shown), shown.rows_read) == (False, 4)


def test_examples_are_left_out_and_markdown_is_no_markup(tmp_path):
    table = new_table(tmp_path, {"id": "INT", "v": "STRING"}, (1, "a"), primary_keys="id")
    write(table, (1, "<b>|@team"))
    table = table.alter([{"action": "addColumn", "fieldNames": ["w"], "dataType": "INT"}])
    shown = diff(table, 1, executor=EXECUTOR)
    assert shown.markdown() == (
        "### `db.t`: `1` → `latest`\n\n"
        "| rows | added | removed | changed |\n| --- | ---: | ---: | ---: |\n"
        "| **all** | 0 | 0 | 1 |\n\n"
        "| column | changed rows |\n| --- | ---: |\n| v | 1 |\n\n"
        "| schema | change | before | after |\n| --- | --- | --- | --- |\n"
        "| column | added |  | w INT |\n\n"
        "<details><summary>Examples</summary>\n\n"
        "| example | before | after |\n| --- | --- | --- |\n"
        "| changed | id = 1, v = a | id = 1, v = \\<b\\>\\|@\u200bteam |\n\n</details>\n"
    )
    assert diff(table, 1, executor=EXECUTOR, examples=0).rows.examples == ()
    assert "No difference." in diff(table, 2, 2).markdown()


def test_unknown_version_is_refused(tmp_path):
    table = new_table(tmp_path, {"id": "INT"}, (1,))
    with refused(NotFoundError, kind="tag-not-found"):
        diff(table, "gone")
    with refused(NotFoundError, kind="branch-not-found"):
        diff(table, "gone@latest")


def test_sql_and_command_line_show_diff(tmp_path, invoke):
    w = tmp_path / "w"
    table = new_table(w, {"id": "INT", "v": "INT"}, (1, 1), (2, 2), primary_keys="id")
    write(table, (1, 5), (3, 3))
    [row] = new_catalog_in(w).execute("CALL sys.diff('db.t', '1', '2')").to_pylist()
    assert row == {"partition": None, "added": 1, "removed": 0, "changed": 1}
    shown = invoke("diff", "db.t", "--from", "1")
    assert shown.splitlines() == [
        "db.t, 1 to latest: 1 added, 0 removed, 1 changed; columns: v (1).",
        "changed: id = 1, v = 1 -> id = 1, v = 5",
        "added: id = 3, v = 3",
    ]
    hidden = invoke("diff", "db.t", "--from", "1", "--examples", "0", "--json")
    assert json.loads(hidden)["rows"] == {
        "added": 1, "removed": 0, "changed": 1, "columns": {"v": 1}, "compared": 3,
        "examples": [],
    }  # fmt: skip
