"""`--cdc`, `--kafka`: the same flights in a database, which a table follows by Debezium's records.

    INSERT when a flight is scheduled, UPDATE at departure and landing, DELETE when it is cancelled;
    half-way the table gets the column air_time

The connector returns to an earlier point now and then, so files begin with changes that an earlier
file had; updates do not hold the tail number, as Postgres leaves out long values that did not
change.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import numpy as np
import pandas as pd
from rich.console import Console

from jobs.demo.change_log import derive_changes
from jobs.demo.expectations import KEY, difference
from jobs.demo.home import LANDING, prepare_dagster_home
from jobs.demo.nycflights import read_flights
from jobs.demo.schemas import FLIGHTS
from paimon_assets.assets import FileSource
from paimon_assets.cdc import ChangeLogConfig, KafkaSource, TopicLogConfig, build_change_log_asset
from paimon_assets.engine.control.catalog.catalog import Identifier
from paimon_assets.engine.spec.schema.schema import Schema
from resources import build_resources

TABLE = Identifier("demo", "flights_followed")
NEW, LEFT_OUT = "air_time", "tailnum"
REPEATED = 50
"""Changes of the file before that a file has again."""
_FILES_OF_A_RUN = 3
_PARTITIONS = 3
_GONE = "__debezium_unavailable_value"
_TEXTS = ("carrier", "origin", "dest", "tailnum", "status")


def follow_flights(*, every: int, files: int, broker: str = "") -> int:
    """Land the log, follow it, and compare the table with the database; return the exit code.

    With a broker of Kafka, the log is sent to a topic instead.
    """
    console = Console(highlight=False, soft_wrap=True)
    prepare_dagster_home()
    changes = database_log(every)
    half = len(changes) // 2
    folder = LANDING / f"followed-{every}-{files}"
    embedded = build_resources("embedded")  # some ten thousand rows a run need no session
    with dg.DagsterInstance.get() as instance, dg.build_resources(embedded) as resources:
        catalog = resources.paimon.catalog()
        if not broker and not folder.exists():
            catalog.drop_table(TABLE, ignore_if_missing=True)
            land(changes, folder, files=files, half=half)
        source: FileSource | KafkaSource = FileSource(folder=str(folder), format="debezium-json")
        config: ChangeLogConfig | TopicLogConfig = ChangeLogConfig(max_files=_FILES_OF_A_RUN)
        where = f"{files} files"
        if broker:
            catalog.drop_table(TABLE, ignore_if_missing=True)
            topic = send(changes, broker, half=half)
            source = KafkaSource(bootstrap=broker, topic=topic, format="debezium-json")
            config = TopicLogConfig(max_records=-(-len(changes) * _FILES_OF_A_RUN // files))
            where = f"topic {topic}"
        console.print(
            f"{len(changes):,} changes of a database in {where}; {NEW} is added after "
            f"{half:,} of them."
        )
        asset = build_change_log_asset(TABLE, _table_schema(), source=source, schema_policy="add")
        left = 1
        while left:
            result = dg.materialize(
                [asset],
                resources={"paimon": resources.paimon},
                instance=instance,
                run_config=dg.RunConfig(ops={asset.node_def.name: config}),
                raise_on_error=False,
            )
            if not result.success:
                console.print("\n[bold red]The run failed.[/] `make dev` shows it.")
                return 1
            [event] = result.get_asset_materialization_events()
            shown = {key: value.value for key, value in event.materialization.metadata.items()}
            left = int(str(shown["paimon/lag_records" if broker else "paimon/files_left"]))
            console.print(_run_text(shown))
        table = catalog.get_table(TABLE)
        rows = table.to_arrow([column for column in table.schema.field_names if column[0] != "_"])
    found = difference(rows, rows_in_the_end(changes, half))
    verdict = "every value right" if found is None else f"[red]{found}[/]"
    console.print(f"{TABLE}: {rows.num_rows:,} rows, {verdict}.")
    return int(found is not None)


def _run_text(shown: Mapping[str, Any]) -> str:
    new = f", schema {shown['paimon/schema_id']}" if "paimon/schema_before" in shown else ""
    taken = f"{shown.get('paimon/files_ingested', 0)} files"
    if "paimon/offsets_read" in shown:
        taken = f"{shown['paimon/offsets_read']:,} offsets, {shown['paimon/lag_records']:,} behind"
    return (
        f"  {taken}, {shown.get('paimon/changes_in', 0):,} changes, "
        f"{shown.get('paimon/keys_looked_up', 0):,} stored rows looked up{new}"
    )


def _table_schema() -> Schema:
    """Return the table before the column was added."""
    columns: dict[str, Any] = {each.name: each.type for each in FLIGHTS.fields}
    for name in (NEW, "op", "op_time"):
        del columns[name]
    return Schema.of(
        columns,
        partition_keys=FLIGHTS.partition_keys,
        primary_keys=FLIGHTS.primary_keys,
        options={"bucket": FLIGHTS.options["bucket"]},
    )


def database_log(every: int) -> pd.DataFrame:
    """Return the changes in the order of the database, with `op` and `op_time`."""
    changes = derive_changes(read_flights(every)).to_pandas()
    changes = changes[changes["op"] != "-U"]
    return changes.sort_values("op_time", kind="stable", ignore_index=True)


def rows_in_the_end(changes: pd.DataFrame, half: int) -> pd.DataFrame:
    """Return the rows of the database after all changes: plain pandas."""
    changes = changes.copy()
    changes.loc[: half - 1, NEW] = pd.NA
    last = changes.drop_duplicates(KEY, keep="last")
    return last[last["op"] != "-D"].drop(columns=["op", "op_time"])


def land(changes: pd.DataFrame, folder: Path, *, files: int, half: int) -> None:
    """Write the log as files of records, of which each repeats the end of the one before."""
    records = _all_records(changes, half)
    hidden = folder.with_name(f".{folder.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.mkdir(parents=True)
    size = -(-len(records) // files)
    for number in range(files):
        part = records[max(0, number * size - REPEATED) : (number + 1) * size]
        (hidden / f"{number:04}.json").write_text("\n".join(part))
    hidden.rename(folder)


def send(changes: pd.DataFrame, broker: str, *, half: int) -> str:
    """Send the log to a new topic, keyed as Debezium does; return its name."""
    kafka, admin_module = (import_module(f"confluent_kafka{part}") for part in ("", ".admin"))
    topic = f"air.public.flights-{uuid4().hex[:6]}"
    admin = admin_module.AdminClient({"bootstrap.servers": broker})
    admin.create_topics([admin_module.NewTopic(topic, _PARTITIONS)])[topic].result()
    producer = kafka.Producer({"bootstrap.servers": broker, "linger.ms": 50})
    keys = changes[KEY].copy()
    keys["time_hour"] = keys["time_hour"].astype("datetime64[ms]").astype(np.int64)
    texts = keys.to_json(orient="records", lines=True).splitlines()
    for number, (key, value) in enumerate(zip(texts, _all_records(changes, half), strict=True)):
        producer.produce(topic, key=key, value=value)
        if not number % 10_000:
            producer.flush()
    producer.flush()
    return topic


def _all_records(changes: pd.DataFrame, half: int) -> list[str]:
    before = _records(changes.iloc[:half].drop(columns=NEW), 0)
    return [*before, *_records(changes.iloc[half:], half)]


def _records(changes: pd.DataFrame, start: int) -> Iterator[str]:
    """Yield Debezium's records, each with its schema."""
    op = changes["op"].map({"+I": "c", "+U": "u", "-D": "d"})
    millis = changes["op_time"].astype("datetime64[ms]").astype(np.int64)
    rows = changes.drop(columns=["op", "op_time"])
    is_update = (op == "u") & rows[LEFT_OUT].notna()
    rows = rows.assign(
        time_hour=rows["time_hour"].astype("datetime64[ms]").astype(np.int64),
        **{LEFT_OUT: rows[LEFT_OUT].where(~is_update, _GONE)},
    )
    schema = json.dumps(_schema(rows.columns))
    images = rows.to_json(orient="records", lines=True).splitlines()
    for number, (kind, image, time) in enumerate(zip(op, images, millis, strict=True)):
        before, after = (image, "null") if kind == "d" else ("null", image)
        source = (
            '{"connector":"postgresql","name":"flights","db":"air","schema":"public",'
            f'"table":"flights","lsn":{1000 + 8 * (start + number)},"ts_ms":{time}}}'
        )
        payload = f'{{"op":"{kind}","before":{before},"after":{after},"source":{source}}}'
        yield f'{{"schema":{schema},"payload":{payload}}}'


def _schema(columns: Sequence[str]) -> dict[str, Any]:
    fields = [{"field": name, "optional": True, **_type(name)} for name in columns]
    row = {"type": "struct", "optional": True, "fields": fields}
    images = [{**row, "field": name} for name in ("before", "after")]
    return {"type": "struct", "fields": [*images, {"field": "op", "type": "string"}]}


def _type(name: str) -> dict[str, Any]:
    if name == "time_hour":
        return {"type": "int64", "name": "io.debezium.time.Timestamp", "version": 1}
    return {"type": "string" if name in _TEXTS else "int32"}
