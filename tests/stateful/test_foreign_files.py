"""Whatever is done to a table, the files of its segments stay as their owner wrote them."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings, stateful
from hypothesis import strategies as st

from paimon_assets.engine.control.maintenance.expire_snapshots import Retention, expire_snapshots
from paimon_assets.engine.control.maintenance.orphan_files import clean_orphan_files
from paimon_assets.engine.control.maintenance.removed_segments import forget_removed
from paimon_assets.engine.control.segments import HOLD_TAG_PREFIX
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.errors import InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.schema.schema import Schema
from paimon_assets.engine.table.api import open_catalog
from paimon_assets.engine.table.segments.segment_import import SegmentSource
from paimon_assets.engine.table.table import Table
from tests.testkit.effort import often
from tests.testkit.foreign import states, write
from tests.testkit.metadata_tables import FixedClock

_EXECUTOR = EmbeddedExecutor(threads=1)
_LATER = FixedClock(now=4_000_000_000_000)
_FORMATS = ("parquet", "orc", "csv")
_DAYS = (1, 2)
_NAME = "db.t"
_SCHEMA = Schema.of(
    {"v": "INT", "w": "INT", "day": "INT"},
    partition_keys=["day"],
    options={"compaction.min.file-num": "2", "target-file-size": "1 mb"},
)
_SETTINGS = settings(
    max_examples=often(10),
    stateful_step_count=18,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

Row = tuple[int | None, int]
_Segment = tuple[str, int, Counter[Row]]
"""(format, day, rows)."""


class ForeignFilesMachine(stateful.RuleBasedStateMachine):
    """Two folders of each format, one table; the model has the rows of each part."""

    def __init__(self) -> None:
        super().__init__()
        self._home = Path(tempfile.mkdtemp(prefix="foreign-files-"))
        self._next = 0
        self._own: Counter[Row] = Counter()
        self._segments: dict[int, _Segment] = {}
        self._history: dict[int, tuple[Counter[Row], dict[int, _Segment]]] = {}
        self._tagged: dict[str, Counter[Row]] = {}

    def teardown(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)

    @stateful.initialize()
    def prepare(self) -> None:
        for number, name in enumerate(_FORMATS):
            for day in _DAYS:
                values = pa.array([100 * number + day, None], pa.int32())
                data = pa.table({"v": values, "w": pa.array([1, 2], pa.int32())})
                for part in range(2):
                    path = self._folder(name) / f"day={day}" / f"{part}.{name}"
                    write(path, data)
        self._states = states(self._home / "foreign")
        self._catalog = open_catalog(str(self._home / "warehouse"))
        self._catalog.create_database("db")
        self._create()

    def _create(self) -> None:
        self._table = self._catalog.create_table(_NAME, _SCHEMA)
        self._own.clear()
        self._segments.clear()
        self._history.clear()
        self._tagged.clear()

    def _folder(self, name: str) -> Path:
        return self._home / "foreign" / name

    @stateful.rule(name=st.sampled_from(_FORMATS))
    def add(self, name: str) -> None:
        source = SegmentSource(
            path=str(self._folder(name)), format=name, partition="day:int", only_new=True
        )
        for segment in self._table.segments().add(source, _EXECUTOR).segments:
            day = int(segment.partition_text.removeprefix("day="))
            value = 100 * _FORMATS.index(name) + day
            held = Counter({(value, day): 2, (None, day): 2})
            self._segments[segment.id] = (name, day, held)

    @stateful.precondition(lambda self: self._segments)
    @stateful.rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(sorted(self._segments)))
        self._table.segments().delete([chosen])
        del self._segments[chosen]

    @stateful.rule(force=st.booleans())
    def clean(self, force: bool) -> None:
        self._table.segments().clean(force=force)
        if force:
            self._history.clear()  # cleaned files are not known again after a rollback
            self._tagged.clear()

    @stateful.rule()
    def refresh(self) -> None:
        self._table.segments().refresh([], _EXECUTOR)

    @stateful.rule(day=st.sampled_from(_DAYS), aborts=st.booleans())
    def append(self, day: int, aborts: bool) -> None:
        self._next += 1
        rows = pa.table({"v": [-self._next], "w": [0], "day": [day]})
        builder = self._table.new_write_builder()
        if aborts:
            builder.abort(_EXECUTOR.map_rows(builder.prepare(), rows).messages)
            return
        builder.write(rows, _EXECUTOR)
        self._own[-self._next, day] += 1

    @stateful.rule(day=st.sampled_from([*_DAYS, None]))
    def overwrite(self, day: int | None) -> None:
        emptied = [number for number in _DAYS if day in (None, number)]
        if day is None:
            self._table.truncate()
        else:
            self._table.drop_partitions([{"day": day}])
        self._own = Counter({row: n for row, n in self._own.items() if row[1] not in emptied})
        self._segments = {
            number: item for number, item in self._segments.items() if item[1] not in emptied
        }

    @stateful.rule(day=st.sampled_from(_DAYS))
    def replace_partition(self, day: int) -> None:
        self._next += 1
        rows = pa.table({"v": [-self._next], "w": [0], "day": [day]})
        builder = self._table.new_write_builder().with_overwrite(partition={"day": day})
        builder.write(rows, _EXECUTOR)
        self._own = Counter({row: n for row, n in self._own.items() if row[1] != day})
        self._own[-self._next, day] += 1
        self._segments = {number: item for number, item in self._segments.items() if item[1] != day}

    @stateful.rule(day=st.sampled_from(_DAYS))
    def delete_own_rows(self, day: int) -> None:
        changes = self._table.new_row_change_builder()
        formats = {item[0] for item in self._segments.values()}
        if formats - {"parquet"}:
            with pytest.raises(UnsupportedFeatureError, match="mixed format segments"):
                changes.delete(f"v < 0 AND day = {day}", _EXECUTOR)
            return
        changes.delete(f"v < 0 AND day = {day}", _EXECUTOR)
        self._own = Counter({row: n for row, n in self._own.items() if row[1] != day})

    @stateful.precondition(lambda self: self._history)
    @stateful.rule()
    def tag(self) -> None:
        self._next += 1
        self._table.tags.create(f"tag-{self._next}")
        self._tagged[f"tag-{self._next}"] = self._expected_rows()

    @stateful.precondition(lambda self: self._table.tags.list())
    @stateful.rule(data=st.data())
    def delete_tag(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(tag.name for tag in self._table.tags.list())))
        if name.startswith(HOLD_TAG_PREFIX):
            with pytest.raises(InvalidInputError):
                self._table.tags.delete(name)
            return
        self._table.tags.delete(name)
        self._tagged.pop(name, None)

    @stateful.rule()
    def expire(self) -> None:
        retention = Retention(min_count=1, max_count=1, time_ms=10**15, limit=50)
        expire_snapshots(self._table._store, retention=retention)
        forget_removed(self._table._store)
        kept = {snapshot.id for snapshot in self._table.snapshots()}
        self._history = {number: held for number, held in self._history.items() if number in kept}

    @stateful.rule()
    def clean_orphans(self) -> None:
        clean_orphan_files(self._table._store, older_than_ms=0, dry_run=False, clock=_LATER)

    @stateful.rule()
    def compact(self) -> None:
        self._table.new_compaction_builder().with_strategy("full").run(_EXECUTOR)

    @stateful.precondition(lambda self: self._history)
    @stateful.rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from(sorted(self._history)))
        self._table.rollback_to(target)
        own, segments = self._history[target]
        self._own, self._segments = own.copy(), dict(segments)
        for later in [number for number in self._history if number > target]:
            del self._history[later]
        kept = {tag.name for tag in self._table.tags.list()}
        self._tagged = {name: held for name, held in self._tagged.items() if name in kept}

    @stateful.rule()
    def drop(self) -> None:
        self._catalog.drop_table(_NAME)
        self._create()

    @stateful.invariant()
    def nothing_foreign_was_touched(self) -> None:
        assert states(self._home / "foreign") == self._states

    @stateful.invariant()
    def the_rows_are_those_of_the_live_parts(self) -> None:
        assert self._read(self._table) == self._expected_rows()
        live = {segment.id for segment in self._table.segments().live()}
        assert live == set(self._segments)
        latest = self._table.latest_snapshot()
        if latest is not None:
            self._history[latest.id] = (self._own.copy(), dict(self._segments))

    @stateful.invariant()
    def tags_read_as_they_did(self) -> None:
        for name, held in self._tagged.items():
            assert self._read(self._table.copy({"scan.tag-name": name})) == held

    def _expected_rows(self) -> Counter[Row]:
        expected = self._own.copy()
        for _, _, held in self._segments.values():
            expected += held
        return expected

    @staticmethod
    def _read(table: Table) -> Counter[Row]:
        read = table.new_read_builder().to_arrow().to_pylist()
        return Counter((row["v"], row["day"]) for row in read)


@pytest.mark.hunt
def test_foreign_files_outlive_every_operation():
    stateful.run_state_machine_as_test(ForeignFilesMachine, settings=_SETTINGS)
