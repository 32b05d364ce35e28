"""Turn records of topics into changes; the position of a change is its offset."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from paimon_assets.cdc.kafka.fetching import OFFSET, TIMESTAMP, VALUE, Fetched
from paimon_assets.cdc.kafka.messages import METADATA, describe_record, lines
from paimon_assets.cdc.kafka.registry import SchemaRegistry
from paimon_assets.cdc.records import change_batch
from paimon_assets.cdc.records.avro_messages import json_messages
from paimon_assets.cdc.records.formats import KEYED_ROWS, cdc_format, changes_of
from paimon_assets.cdc.records.json_records import Source
from paimon_assets.engine.spec.values import Value

_OP_TIME = "op_time"


class TopicChanges(Value, dict=True, hidden=("registry_settings",)):
    """The way the records of topics are read as changes."""

    format: str
    by_offset: bool
    """Whether the offset is the order, not the position that a record has in its log."""
    registry_settings: Mapping[str, str]
    """Of the registry of Avro's schemas."""
    seconds: float
    """So long it may be silent."""

    @cached_property
    def _registry(self) -> SchemaRegistry:
        return SchemaRegistry(self.registry_settings, seconds=self.seconds)

    def of(
        self, fetched: Fetched, options: change_batch.CdcOptions
    ) -> list[change_batch.ChangeBatch]:
        """Return the records of a range as changes, in the order of their offsets."""
        kind = KEYED_ROWS if self.format == "json" else cdc_format(self.format)
        offsets = fetched.records[OFFSET].to_numpy()
        name, schemas = fetched.range.name, list[str]()
        if kind.is_avro:
            source = Source(name, options, offsets)
            records, schemas = json_messages(fetched.records, self._registry, source)
            fetched = replace(fetched, records=records)
        stream: Any = lines(fetched, has_keys=kind.has_keys)
        found = changes_of(stream, name, kind, options, offsets=offsets, schemas=schemas)
        return [self._locate(batch, fetched, options.metadata) for batch in found]

    def _locate(
        self, batch: change_batch.ChangeBatch, fetched: Fetched, wanted: frozenset[str]
    ) -> change_batch.ChangeBatch:
        """Return a batch whose records are named by offsets, not by lines."""
        origin = batch.origin
        records = fetched.records.drop_columns([VALUE]).take(pc.subtract(origin["line"], 1))
        hidden = (change_batch.LOG, change_batch.PLACE) if self.by_offset else ()
        columns = {name: origin[name] for name in origin.column_names}
        columns |= {name: pa.nulls(len(origin), columns[name].type) for name in hidden}
        columns["line"] = records[OFFSET]
        columns[_OP_TIME] = pc.coalesce(origin[_OP_TIME], records[TIMESTAMP])
        metadata = {name: batch.metadata[name] for name in batch.metadata.column_names}
        for name in wanted.intersection(METADATA):
            metadata[name] = _text(describe_record(records, fetched.range, name))

        def locate_event(event: change_batch.TableEvent) -> change_batch.TableEvent:
            line = fetched.records[OFFSET][int(event.origin["line"]) - 1].as_py()
            return replace(event, origin={**event.origin, "line": line, **dict.fromkeys(hidden)})

        return replace(
            batch,
            origin=pa.table(columns, schema=change_batch.ORIGIN_SCHEMA),
            metadata=pa.table(metadata) if metadata else batch.metadata,
            events=tuple(map(locate_event, batch.events)),
        )


def _text(column: Any) -> Any:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.cast(pa.string())
