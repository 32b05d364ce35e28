"""A sensor that adds a key to dynamic partitions for each value of a table's partition column."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from paimon_assets.assets import sensors
from paimon_assets.assets.failures import naming_arguments
from paimon_assets.assets.resource import PaimonCatalogResource
from paimon_assets.assets.translator import identifier_of_asset, resource_key_of
from paimon_assets.engine.codec.arrow.arrow_values import to_scalar
from paimon_assets.engine.errors import InvalidInputError, NotFoundError
from paimon_assets.engine.spec.types.data_types import DataField
from paimon_assets.engine.spec.types.literals import Internal, to_internal
from paimon_assets.engine.spec.words import counted
from paimon_assets.engine.table.table import Table

_KEYS_PER_TICK = 500


@naming_arguments
def build_partition_keys_sensor(
    asset: dg.AssetsDefinition | dg.AssetSpec,
    *,
    partitions_def: dg.DynamicPartitionsDefinition,
    column: str,
    target: Any = None,
    name: str | None = None,
    minimum_interval_seconds: int = 60,
) -> dg.SensorDefinition:
    """Add a key to dynamic partitions for each value of a table's partition column.

    >>> days = dg.DynamicPartitionsDefinition(name="days")
    >>> sensor = build_partition_keys_sensor(orders, partitions_def=days, column="day")

    Keys that are there stay, also when their partition is gone. A null and an empty text become no
    key. The sensor is shipped stopped.

    Args:
        asset: The table that is looked at: an asset of it, or the spec of an external one.
        partitions_def: Gets the keys; it has a name.
        column: A partition column of the table.
        target: A partitioned job or selection, of which each new key gets a run; none by default.
        name: The name of the sensor; `<partitions>_new_keys` by default.
        minimum_interval_seconds: Between ticks.

    Raises:
        InvalidInputError: The asset is not of exactly one table, or the partitions have no name.

    Cost:
        A tick that finds a new snapshot reads its manifests; at most 500 keys are added at once.
    """
    identifier, resource_key = identifier_of_asset(asset), resource_key_of(asset)
    partitions = partitions_def.name
    if partitions is None:
        raise InvalidInputError(
            f"The dynamic partitions for table {identifier} need a name.", kind="partition-key"
        )

    def tick(context: dg.SensorEvaluationContext, paimon: PaimonCatalogResource) -> sensors.Ticked:
        try:
            table = paimon.catalog().get_table(identifier)
        except NotFoundError:
            return dg.SkipReason(f"Table {identifier} does not exist.")
        return _add(context, table, partitions_def, column, runs=target is not None)

    return sensors.define_sensor(
        name or f"{partitions}_new_keys",
        f"Adds a key to '{partitions}' for each {column} of {identifier}.",
        tick,
        resource_key=resource_key,
        seconds=minimum_interval_seconds,
        target=target,
    )


def _add(
    context: dg.SensorEvaluationContext,
    table: Table,
    partitions_def: dg.DynamicPartitionsDefinition,
    column: str,
    *,
    runs: bool,
) -> sensors.Ticked:
    newest = table.latest_snapshot()
    if newest is None or context.cursor == newest.name:
        return dg.SkipReason(f"Table {table.name} has nothing new.")
    partitions = str(partitions_def.name)
    existing = set(context.instance.get_dynamic_partitions(partitions))
    missing = sorted(set(_keys(table, column)) - existing)
    added = missing[:_KEYS_PER_TICK]
    # The next tick adds the remaining keys.
    cursor = newest.name if len(added) == len(missing) else context.cursor
    if not added:
        has = counted(len(existing), "key")
        return dg.SensorResult(skip_reason=f"All partitions are among the {has}.", cursor=cursor)
    requests = [dg.RunRequest(run_key=f"{partitions}:{key}", partition_key=key) for key in added]
    return dg.SensorResult(
        dynamic_partitions_requests=[partitions_def.build_add_request(added)],
        run_requests=requests if runs else [],
        cursor=cursor,
    )


def _keys(table: Table, column: str) -> Iterator[str]:
    if column not in table.schema.partition_keys:
        message = (
            f"Column '{column}' is no partition column of table '{table.name}': "
            f"{', '.join(table.schema.partition_keys) or 'it has none'}."
        )
        raise InvalidInputError(message, kind="partition-column", table=table.name, column=column)
    field = table.schema.column(column)
    for partition in {entry.partition for entry in table.state.live_files()}:
        key = partition_key_of(table.state.partition_values(partition)[column], field)
        if key:
            yield key


def partition_key_of(value: Internal, field: DataField) -> str:
    """Return a partition value as the key a run is given, empty for null.

    >>> from paimon_assets.engine.spec.types.data_types import AtomicType, TypeRoot
    >>> partition_key_of(19723, DataField(id=0, name="d", type=AtomicType(root=TypeRoot.DATE)))
    '2024-01-01'
    """
    if value is None:
        return ""
    plain = to_scalar(value, field.type).as_py()
    text = str(plain).lower() if isinstance(plain, bool) else str(plain)
    if text and to_internal(text, field.type, field.name) != value:
        message = f"Partition column '{field.name}' is {field.type}: its values cannot be keys."
        raise InvalidInputError(message, kind="partition-key", column=field.name)
    return text
