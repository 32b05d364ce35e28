"""The deployment: tables of every kind, their daily writers, and their expected rows."""

import datetime as dt
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.pyarrow as pap
import pyarrow as pa
import pyarrow.parquet as papq
from msgspec.structs import replace

from paimon_assets import EmbeddedExecutor, Schema, SegmentSource, assets
from paimon_assets.assets.jobs.maintenance import MaintenanceChoice
from paimon_assets.engine.spec.evolution.schema_change import AddColumn
from paimon_assets.engine.spec.types.data_types import integer

KEPT_DAYS = 30
"""How long partitions of `soak.days` are kept."""
KEPT_WEEKS = 4
"""How long foreign files of `soak.archive` are part of it."""
_KEYS = 400
_ROWS = 60
_LOG_ROWS = 3000
"""A day's rows of the tables without key."""
_STILL_AFTER = 5
"""Days that `soak.still` is written on: then it is compacted once, analyzed once, and stays."""
_DAY = "1 d"
_MINIMUM_SECONDS = 5
"""Between two ticks of a sensor, where there is a daemon."""
_EXPIRY = {"snapshot.time-retained": _DAY, "snapshot.num-retained.min": "2"}
_TYPES = {"id": "BIGINT", "n": "BIGINT", "kind": "STRING", "seq": "BIGINT"}
CHANGES = Schema.of(
    _TYPES,
    primary_keys=["id"],
    options={"bucket": "2", "rowkind.field": "kind", "sequence.field": "seq", **_EXPIRY},
)
SUMS = Schema.of(
    {"id": "BIGINT", "n": "BIGINT"},
    primary_keys=["id"],
    options={
        "bucket": "1", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum",
        **_EXPIRY,
    },
)  # fmt: skip
MARKED = Schema.of(
    {"id": "BIGINT", "n": "BIGINT"},
    primary_keys=["id"],
    options={"bucket": "1", "deletion-vectors.enabled": "true", **_EXPIRY},
)
LOG = Schema.of({"id": "BIGINT", "n": "BIGINT"}, options=_EXPIRY)
DAYS = Schema.of(
    {"id": "BIGINT", "n": "BIGINT", "day": "DATE"},
    partition_keys=["day"],
    options={"partition.expiration-time": f"{KEPT_DAYS} d", **_EXPIRY},
)
ARCHIVE = Schema.of(
    {"id": "BIGINT", "n": "BIGINT", "week": "INT"}, partition_keys=["week"], options=_EXPIRY
)
_EVERYTHING = assets.MaintenanceConfig(tasks=list(MaintenanceChoice))
POSITIVE = pap.DataFrameSchema({"n": pap.Column(pa.int64(), pap.Check.gt(0))}, name="positive")
Row = tuple[Any, ...]


class Batches:
    """The files that the next runs of each asset write, one for a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0

    def lay(self, name: str, rows: pa.Table) -> None:
        """Add the file of one run, after those that are there."""
        self._count += 1
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        papq.write_table(rows, folder / "unfinished")
        (folder / "unfinished").rename(folder / f"{self._count:06}.parquet")

    def waiting(self, name: str = "*") -> list[Path]:
        """Return the files that no run has taken, oldest first."""
        return sorted(self.folder.glob(f"{name}/*.parquet"))

    def asset(self, name: str, schema: Schema, **options: Any) -> dg.AssetsDefinition:
        """Return the asset of a table: a run takes and writes the oldest that lies for it."""

        @assets.paimon_asset(f"soak.{name}", schema, **options)
        def rows() -> pa.Table | None:
            for path in self.waiting(name):
                taken = papq.read_table(path, partitioning=None)
                path.unlink()
                return taken
            return None

        return rows


class Deployment:
    """Assets, jobs and sensors on one warehouse; and the rows that its tables must have."""

    def __init__(self, home: Path, retained: str = _DAY) -> None:
        self.landing, self.folder = home / "landing", home / "archive"
        for path in (self.landing, self.folder):
            path.mkdir(parents=True, exist_ok=True)
        self.paimon = assets.PaimonCatalogResource(
            warehouse=str(home / "warehouse"), executor="embedded"
        )
        self.batches = Batches(home / "batches")
        audits = assets.build_pandera_checks(None, POSITIVE, when="before_commit")
        source = assets.FileSource(folder=str(self.landing))
        segments = SegmentSource(path=str(self.folder), partition="week:int")

        def kept(schema: Schema) -> Schema:
            return replace(schema, options={**schema.options, "snapshot.time-retained": retained})

        def make(name: str, schema: Schema, **options: Any) -> dg.AssetsDefinition:
            return self.batches.asset(name, kept(schema), **options)

        self.assets = {
            "changes": make("changes", CHANGES),
            "sums": make("sums", SUMS),
            "marked": make("marked", MARKED),
            "log": make("log", LOG),
            "days": make("days", DAYS),
            "still": make("still", LOG),
            "audited": make("audited", LOG, before_commit=audits),
            "files": assets.build_file_ingestion_asset("soak.files", kept(LOG), source=source),
            "archive": assets.build_segment_asset("soak.archive", kept(ARCHIVE), source=segments),
        }
        often = _MINIMUM_SECONDS
        self.new_files = assets.build_new_files_sensor(
            self.assets["files"], source=source, minimum_interval_seconds=often
        )
        self.new_segments = assets.build_new_segments_sensor(
            self.assets["archive"], source=segments, minimum_interval_seconds=often
        )
        every = list(self.assets.values())
        self.compaction = assets.build_compaction_job([*every, "soak.wide"])
        self.maintenance = assets.build_maintenance_job([*every, "soak.wide"])
        self.file_debt = assets.build_file_debt_sensor(
            self.compaction, tables=["soak.*"], minimum_interval_seconds=often
        )
        self.checks = [
            assets.build_small_files_check(self.assets[name]) for name in ("days", "log")
        ]

        @dg.asset(deps=[self.assets["still"]], automation_condition=assets.on_new_data())
        def below() -> None: ...

        self.below = below
        self.wide = kept(LOG)
        self.definitions = dg.Definitions(
            assets=[*every, below], asset_checks=self.checks, resources={"paimon": self.paimon}
        )
        self.truth: dict[str, dict[int, Row] | list[Row]] = {
            "changes": {}, "sums": {}, "marked": {}, "log": [], "days": [], "still": [],
            "audited": [], "files": [], "wide": [], "archive": [],
        }  # fmt: skip

    def schedules(
        self, compaction: str, maintenance: str, **options: Any
    ) -> list[dg.ScheduleDefinition]:
        """Return the schedules of the compaction and the maintenance of all tables, by their crons.

        Other options are those of `dg.ScheduleDefinition`.
        """
        jobs = (
            (self.compaction, compaction, {"compact": assets.CompactionConfig()}),
            (self.maintenance, maintenance, {"maintain": _EVERYTHING}),
        )
        return [
            dg.ScheduleDefinition(
                job=job, cron_schedule=cron, run_config=dg.RunConfig(ops=ops), **options
            )
            for job, cron, ops in jobs
        ]

    def begin(self) -> None:
        catalog = self.paimon.catalog()
        catalog.create_database("soak")
        catalog.create_table("soak.wide", self.wide)

    def change(self, day: int, part: int) -> None:
        """Lay down a part of a day's changes: upserts, and deletes of every tenth key."""
        found: Any = self.truth["changes"]
        step = day * 10 + part
        ids = [(step * 37 + each * 11) % _KEYS for each in range(_ROWS)]
        kinds = ["-D" if (each + step) % 10 == 0 else "+I" for each in ids]
        steps = [step] * _ROWS
        self.batches.lay("changes", pa.table({"id": ids, "n": steps, "kind": kinds, "seq": steps}))
        for each, kind in zip(ids, kinds, strict=True):
            found.pop(each, None)
            if kind == "+I":
                found[each] = (each, step, kind, step)

    def fill(self, day: int, date: dt.date) -> list[str]:
        """Lay down a day's rows of all other assets; return the names of those that run."""
        ids = [day * _LOG_ROWS + each for each in range(_LOG_ROWS)]
        plain = pa.table({"id": ids, "n": [each * 2_654_435_761 % 2**40 + 1 for each in ids]})
        rows = list(zip(ids, plain["n"].to_pylist(), strict=True))
        small = pa.table({"id": [each % 50 for each in ids[:_ROWS]], "n": plain["n"][:_ROWS]})
        sums: Any = self.truth["sums"]
        marked: Any = self.truth["marked"]
        for each, n in zip(small["id"].to_pylist(), small["n"].to_pylist(), strict=True):
            sums[each] = (each, sums.get(each, (0, 0))[1] + n)
            marked[each] = (each, n)
        days = [date] * _LOG_ROWS
        if day % 7 == 3 and day > 7:  # a backfill: a second file of one partition
            days[:5] = [date - dt.timedelta(days=2)] * 5
        self._append("days", [(*row, at) for row, at in zip(rows, days, strict=True)])
        dated = plain.append_column("day", pa.array(days, pa.date32()))
        for name, laid in {"sums": small, "marked": small, "days": dated}.items():
            self.batches.lay(name, laid)
        for name in ("log", "audited", *(["still"] if day <= _STILL_AFTER else [])):
            self.batches.lay(name, plain)
            self._append(name, rows)
        return ["sums", "marked", "log", "days", "still", "audited"]

    def refuse(self) -> None:
        """Lay down a batch that its audit refuses."""
        self.batches.lay("audited", pa.table({"id": [1], "n": [-1]}))

    def land(self, day: int, count: int) -> None:
        for number in range(count):
            ids = [day * 1000 + number * 10 + each for each in range(10)]
            rows = pa.table({"id": ids, "n": ids})
            papq.write_table(rows, self.landing / f"{day:04}-{number:02}.parquet")
            self._append("files", list(zip(ids, ids, strict=True)))

    def archive(self, day: int) -> None:
        """Add a foreign file to the folder of the week: three on its first day."""
        week = day // 7
        folder = self.folder / f"week={week}"
        folder.mkdir(exist_ok=True)
        for number in range(3 if day % 7 == 0 else 1):
            first = (day * 10 + number) * _LOG_ROWS
            ids = list(range(first, first + _LOG_ROWS))
            papq.write_table(pa.table({"id": ids, "n": ids}), folder / f"{day}-{number}.parquet")
            self._append("archive", [(each, each, week) for each in ids])

    def keep_own(self, day: int) -> None:
        """Write rows of our own beside foreign ones, into the partition of the week."""
        row = (-day, day, day // 7)
        types = [pa.int64(), pa.int64(), pa.int32()]
        columns: list[Any] = [pa.array([n], kind) for n, kind in zip(row, types, strict=True)]
        self._write("archive", pa.table(columns, names=["id", "n", "week"]), row)

    def drop(self, week: int) -> None:
        """Take the files of a week out of the table; then they are deleted outside."""
        folder = self.folder / f"week={week}"
        if not folder.exists():
            return
        segments = self.paimon.catalog().get_table("soak.archive").segments()
        text = f"week={week}"
        segments.delete([each.id for each in segments.live() if each.partition_text == text])
        shutil.rmtree(folder)
        rows: Any = self.truth["archive"]
        self.truth["archive"] = [row for row in rows if row[2] != week or row[0] < 0]

    def widen(self, day: int) -> None:
        """Write to the table without an asset, and give it a column every week."""
        table = self.paimon.catalog().get_table("soak.wide")
        if day % 7 == 0:
            column = AddColumn(field_names=(f"c{day}",), data_type=integer())
            table = table.alter([column])
            wide: Any = self.truth["wide"]
            self.truth["wide"] = [(*row, None) for row in wide]
        names = table.schema.field_names
        row = tuple(range(day, day + len(names)))
        types = [pa.int64(), pa.int64(), *[pa.int32()] * (len(names) - 2)]
        columns: list[Any] = [pa.array([n], kind) for n, kind in zip(row, types, strict=True)]
        self._write("wide", pa.table(columns, names=list(names)), row)

    def forget(self, oldest: dt.date) -> None:
        """Forget the rows of partitions that are too old."""
        self.truth["days"] = [row for row in self.truth["days"] if row[2] >= oldest]  # type: ignore[index, misc]  # lists of rows

    def wrong_tables(self) -> list[str]:
        """Return the tables whose rows are not those of the model."""
        return [name for name in self.truth if self._rows(name) != self._expected_rows(name)]

    def _write(self, name: str, rows: pa.Table, row: Row) -> None:
        table = self.paimon.catalog().get_table(f"soak.{name}")
        table.new_write_builder().write(rows, EmbeddedExecutor())
        self._append(name, [row])

    def _append(self, name: str, rows: Sequence[Row]) -> None:
        found: Any = self.truth[name]
        found.extend(rows)

    def _expected_rows(self, name: str) -> list[Row]:
        found = self.truth[name]
        return sorted(found.values() if isinstance(found, dict) else found, key=repr)

    def _rows(self, name: str) -> list[Row]:
        found = self.paimon.catalog().get_table(f"soak.{name}").new_read_builder().to_arrow()
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)
