"""Tables as older engines leave them: a key column's type was changed, and rows were written on."""

from msgspec.structs import replace

from paimon_assets.engine.codec.json.metadata_json import schema_to_json
from paimon_assets.engine.contract.context import BucketState, WriteContext
from paimon_assets.engine.control.file_store import FileStore
from paimon_assets.engine.control.write_planning import hash_indexes
from paimon_assets.engine.embedded import EmbeddedExecutor
from paimon_assets.engine.fileio.local import LocalFileIO
from paimon_assets.engine.spec.paths import TablePaths
from paimon_assets.engine.spec.types.type_text import parse_type


def retype(table, column, new_type):
    """Publish the next schema of a table, in which a column has another type."""
    old = table.schema
    fields = tuple(
        replace(field, type=parse_type(new_type)) if field.name == column else field
        for field in old.fields
    )
    evolved = replace(old, id=old.id + 1, fields=fields)
    paths = TablePaths(table=table.path)
    assert LocalFileIO().publish(paths.schema(evolved.id), schema_to_json(evolved))


def write_on(table, rows):
    """Write rows as engines do that do not look at the key types of the files before."""
    store = FileStore.open(LocalFileIO(), table.path)
    latest = store.snapshots.latest()
    numbers = {}
    for entry in [] if latest is None else table.state.live_files(latest):
        place = (entry.partition, entry.bucket)
        numbers[place] = max(numbers.get(place, -1), entry.file.max_sequence_number)
    context = WriteContext(
        table=store.label,
        table_path=store.table_path,
        schema=store.schema,
        bucket_states=tuple(
            BucketState(partition=partition, bucket=bucket, max_sequence_number=number)
            for (partition, bucket), number in numbers.items()
        ),
        hash_indexes=hash_indexes(store, latest),
        file_io=store.file_io.spec,
    )
    result = EmbeddedExecutor(threads=1).map_rows(context, rows)
    builder = table.new_write_builder()
    return builder.commit(result.messages)
