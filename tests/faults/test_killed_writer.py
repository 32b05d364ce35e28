"""A writer killed at any moment leaves the table as it was, or as it should be; a rerun ends it."""

import itertools
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paimon_assets import Schema, Snapshot, Table, open_table
from tests.testkit.effort import is_hunt
from tests.testkit.faults.writers import DEATHS, Deed, exit_code, perform, write_until_killed
from tests.testkit.model import ModelTable, Row
from tests.testkit.rows import plain_rows, rows_to_arrow
from tests.testkit.tables import new_table, write

COLUMNS = {"part": "STRING", "id": "INT", "text": "STRING"}
MOST_STEPS = 2000
STRIDE = 1 if is_hunt() else 7
"""Moments between two deaths; each scene begins at another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A table, the commits it has, and the one during which the writer dies."""

    name: str
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    commits_before: int = 1
    deed: Deed = Deed.WRITE

    @property
    def schema(self) -> Schema:
        return Schema.of(
            COLUMNS,
            primary_keys=self.primary_keys,
            partition_keys=self.partition_keys,
            options=self.options,
        )


SCENES = [
    Scene(name="first commit of an append table", options={"bucket": "-1"}, commits_before=0),
    Scene(name="append, partitioned", partition_keys=("part",), options={"bucket": "-1"}),
    Scene(name="key", primary_keys=("id",), options={"bucket": "2"}),
    Scene(
        name="key, partitioned, manifests merged",
        primary_keys=("part", "id"),
        partition_keys=("part",),
        options={"bucket": "1", "manifest.merge-min-count": "2"},
        commits_before=3,
    ),
    Scene(
        name="overwrite of a partition",
        primary_keys=("part", "id"),
        partition_keys=("part",),
        options={"bucket": "1"},
        deed=Deed.OVERWRITE,
    ),
    Scene(
        name="data, changelog and index files",
        primary_keys=("id",),
        options={"bucket": "1"},
        deed=Deed.WRITE_ALL_KINDS,
    ),
]


def _rows(commit: int) -> list[Row]:
    return [
        {"part": "ab"[number % 2], "id": number + commit, "text": f"{commit}.{number}"}
        for number in range(4)
    ]


def _read(table: Table, snapshot_id: int | None = None) -> list[tuple[Any, ...]]:
    builder = table.new_read_builder()
    if snapshot_id is not None:
        builder = builder.at_snapshot(snapshot_id)
    return plain_rows(builder.to_arrow(), COLUMNS)


@pytest.mark.hunt
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_writer_may_die_at_any_moment(scene: Scene, tmp_path: Path) -> None:
    table = new_table(tmp_path / "template", scene.schema, name="d.t")
    model = ModelTable(scene.schema)
    for commit in range(scene.commits_before):
        rows = _rows(commit)
        write(table, rows_to_arrow(rows, scene.schema))
        model.write(rows)
    before = plain_rows(model.rows(), COLUMNS)
    rows = _rows(scene.commits_before)
    if scene.deed is Deed.OVERWRITE:
        rows = [row for row in rows if row["part"] == "a"]
        others = (row for row in model.rows() if row["part"] != "a")
        after = plain_rows([*others, *rows], COLUMNS)
    else:
        model.write(rows)
        after = plain_rows(model.rows(), COLUMNS)
    new_rows = rows_to_arrow(rows, scene.schema)

    seen = set()
    for steps in itertools.count(SCENES.index(scene) % STRIDE, STRIDE):
        copy = tmp_path / f"copy-{steps}"
        shutil.copytree(table.path, copy)
        code = exit_code(write_until_killed, str(copy), scene.deed, new_rows, steps)
        if code == 0:
            break
        assert code in DEATHS
        seen.add(_look_and_rerun(copy, scene, new_rows, before, after))
        shutil.rmtree(copy)
        assert steps < MOST_STEPS
    # The loop saw deaths on both sides of the one moment at which the commit happens.
    assert seen == {"not committed", "committed"}


def _look_and_rerun(
    directory: Path,
    scene: Scene,
    new_rows: Any,
    before: list[tuple[Any, ...]],
    after: list[tuple[Any, ...]],
) -> str:
    """Check what a death left, write again, check again; tell whether the commit had happened."""
    table = open_table(str(directory))
    if scene.commits_before:
        assert _read(table, scene.commits_before) == before
    latest = table.latest_snapshot()
    committed = latest is not None and latest.id > scene.commits_before
    assert _read(table) == (after if committed else before)

    outcome = perform(table, scene.deed, new_rows)
    assert outcome.was_already_committed == committed
    assert outcome.snapshot is not None
    assert outcome.snapshot.id == scene.commits_before + 1
    assert _read(open_table(str(directory))) == after
    for snapshot in table.snapshots():
        _check_other_files(table, snapshot)
    return "committed" if committed else "not committed"


def _check_other_files(table: Table, snapshot: Snapshot) -> None:
    """Every index and changelog file a snapshot names is there."""
    store, root = table._store, Path(table.path)
    if snapshot.index_manifest is not None:
        for entry in store.manifests.read_index(snapshot.index_manifest):
            assert (root / "index" / entry.file.file_name).read_bytes() == b"hash"
    if snapshot.changelog_manifest_list is not None:
        for meta in store.manifests.read_list(snapshot.changelog_manifest_list):
            for changed in store.manifests.read(meta):
                assert Path(table.state.file_path(changed)).read_bytes() == b"rows"
