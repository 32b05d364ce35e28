"""FieldMapping: columns of one data file → columns of the read schema, matched by field id.

Source: `org.apache.paimon.schema.SchemaEvolutionUtil`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from msgspec import field
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema, to_arrow_type
from paimon_assets.engine.codec.arrow.arrow_values import UNIT_NANOS
from paimon_assets.engine.codec.arrow.numpy_columns import Array
from paimon_assets.engine.data.casting.casting import CastSettings, cast_column, fit_column
from paimon_assets.engine.data.nested import has_char, without_blanks
from paimon_assets.engine.data.threads import CALLER_ONLY, Threads, Work
from paimon_assets.engine.errors import FormatError, InvalidInputError, UnsupportedFeatureError
from paimon_assets.engine.spec.predicate import predicate as pred
from paimon_assets.engine.spec.schema import schema as table_schema
from paimon_assets.engine.spec.types import cast_rules
from paimon_assets.engine.spec.types.data_types import TIMESTAMP_ROOTS, DataField
from paimon_assets.engine.spec.values import Value

_SHREDDED = frozenset({"metadata", "typed_value"})
"""Fields of a shredded VARIANT, of which some values are columns of their own."""
_WAYS_OUT = {
    "from time64": ". Write the times in milliseconds, or leave the column out.",
    "out of bounds timestamp": ". Declare the column with fewer digits, or leave it out.",
}
"""Part of a message of pyarrow → way out."""


class FieldMapping(Value):
    """The mapping of one file's columns to `fields`.

    Build it with `FieldMapping.of`; `apply` costs nothing per column that needs no cast.
    """

    path: str
    table: str = ""
    """For messages."""
    fields: tuple[DataField, ...]
    sources: tuple[DataField | None, ...]
    """The file's column for each field; None where the file is older than the column."""
    arrow_schema: pa.Schema
    """Schema of the batches of `apply`."""
    casts: CastSettings = field(default_factory=CastSettings)
    changed: frozenset[str] = frozenset()
    """Fields that have another type in the file."""
    cuts_times: bool = False
    """Whether to cut timestamps that are finer than their column; external files may have some."""
    chars: frozenset[str] = frozenset()
    """Columns of the file with CHAR values whose blanks at the end are cut."""

    @staticmethod
    def of(
        fields: Sequence[DataField],
        system_fields: Sequence[DataField],
        file_schema: table_schema.TableSchema,
        path: str,
        *,
        table: str = "",
        casts: CastSettings | None = None,
        cuts_times: bool = False,
        cuts_blanks: bool = False,
    ) -> FieldMapping:
        """Match `fields` to a file by id; `system_fields` are matched by name.

        An ORC file cuts blanks: Java has none at the end of CHAR values there.
        """
        settings = casts or CastSettings()
        sources = tuple(file_schema.by_id.get(target.id) for target in fields)
        all_fields = (*fields, *system_fields)
        mapping = FieldMapping(
            path=path,
            table=table,
            fields=all_fields,
            sources=(*sources, *system_fields),
            arrow_schema=to_arrow_schema([_nullable(target) for target in all_fields]),
            casts=settings,
            changed=frozenset(
                target.name
                for target, source in zip(fields, sources, strict=True)
                if source is not None and not cast_rules.same_type(source.type, target.type)
            ),
            cuts_times=cuts_times,
            chars=frozenset(
                source.name
                for source in (sources if cuts_blanks else ())
                if source is not None and has_char(source.type)
            ),
        )
        for target, source in zip(fields, sources, strict=True):
            if source is None:
                continue
            refusal = cast_rules.cast_refusal(
                source.type, target.type, float_to_boolean=settings.float_to_boolean
            )
            if refusal is not None:
                raise UnsupportedFeatureError(
                    f"Column '{target.name}'{mapping._of_table} is {target.type}, but {source.type}"
                    f" in data file '{path}' (column '{source.name}' of schema {file_schema.id}):"
                    f" {refusal}.",
                    kind="type-change",
                    table=table,
                    column=target.name,
                    type=str(target.type),
                    file_type=str(source.type),
                    path=path,
                )
        return mapping

    @property
    def _of_table(self) -> str:
        return f" of table '{self.table}'" if self.table else ""

    @property
    def file_columns(self) -> tuple[str, ...]:
        """Names of the file's columns to decode, each once."""
        return tuple(dict.fromkeys(source.name for source in self.sources if source))

    @property
    def file_fields(self) -> tuple[DataField, ...]:
        """The file's columns to decode, as its schema declares them."""
        return tuple({source.name: source for source in self.sources if source}.values())

    def file_predicate(self, predicate: pred.Predicate | None) -> pred.Predicate | None:
        """Weaken a predicate on `fields` to one on the file's own columns and types.

        Conjuncts on columns that the file lacks or has in another type are left out. Only widened
        integers are compared, with literals that the file's type can hold. Timestamps that are cut
        after the read are not compared before it.
        """
        held = {
            target.name: (source, target)
            for target, source in zip(self.fields, self.sources, strict=True)
            if source is not None and not (self.cuts_times and target.type.root in TIMESTAMP_ROOTS)
        }
        pushed = pred.all_of(part for part in pred.conjuncts(predicate) if _is_pushable(part, held))
        names = {name: source.name for name, (source, _) in held.items()}
        return None if pushed is None else pred.rename(pushed, names)

    def check_columns(self, present: Collection[str]) -> None:
        missing = [name for name in self.file_columns if name not in present]
        if missing:
            message = (
                f"Data file '{self.path}' has no column '{missing[0]}', which is in its schema;"
                f" it has {', '.join(present)}."
            )
            raise FormatError(message, kind="column-missing", path=self.path, column=missing[0])

    def without_absent(self, present: Collection[str]) -> FieldMapping:
        """Return the mapping of a file that has these columns: `KEPT_SINCE` may be missing."""
        if table_schema.KEPT_SINCE not in self.sources or table_schema.KEPT_SINCE.name in present:
            return self
        sources = (None if source is table_schema.KEPT_SINCE else source for source in self.sources)
        return replace(self, sources=tuple(sources))

    def apply_all(
        self, batches: Iterable[pa.RecordBatch], threads: Threads = CALLER_ONLY
    ) -> Generator[pa.RecordBatch, None, None]:
        """Apply to the batches of a file, in order; casts run in threads beside the decoding.

        Cost:
            Where something is cast, as many batches are held at once as there are threads.
        """
        if not self.changed:
            yield from map(self.apply, batches)
            return
        running: deque[Work[pa.RecordBatch]] = deque()
        for batch in batches:
            running.append(threads.submit(self.apply, batch))
            if len(running) >= threads.count:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Turn a batch of the file's columns into one of `arrow_schema`.

        Other Arrow types of the same Paimon type (large strings, dictionaries, other time units,
        list item names) become the one of `codec.arrow.arrow_types`.
        """
        if self.chars:
            for field in self.file_fields:
                if field.name in self.chars:
                    position = batch.schema.get_field_index(field.name)
                    column = without_blanks(batch.column(position), field.type)
                    batch = batch.set_column(position, batch.schema.field(position), column)
        if not self.changed and batch.schema.equals(self.arrow_schema):
            return batch
        columns = []
        for source, target, arrow_field in zip(
            self.sources, self.fields, self.arrow_schema, strict=True
        ):
            if source is None:
                columns.append(pa.nulls(batch.num_rows, arrow_field.type))
            elif target.name in self.changed:
                columns.append(self._cast(batch.column(source.name), source, target))
            else:
                columns.append(
                    self._read_stored(batch.column(source.name), target, arrow_field.type)
                )
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)

    def _read_stored(self, column: Array, target: DataField, arrow_type: Any) -> Any:
        try:
            if isinstance(column, pa.DictionaryArray):
                column = column.dictionary_decode()
            if column.type.equals(arrow_type):
                return column
            if _holds_shredded(column.type) and not _holds_shredded(arrow_type):
                # A cast would drop the typed parts silently.
                raise UnsupportedFeatureError(
                    f"Data file '{self.path}' stores parts of the VARIANT column '{target.name}' as"
                    " columns of their own (shredding), which this engine cannot assemble. Leave"
                    " the column out, or rewrite the table without 'variant.shreddingSchema'.",
                    kind="variant-shredded",
                    table=self.table,
                    path=self.path,
                    column=target.name,
                )
            if self.cuts_times:
                column = _coarsen(column, arrow_type)
            return fit_column(column, arrow_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            way_out = next((way for sign, way in _WAYS_OUT.items() if sign in str(error)), "")
            raise FormatError(
                f"Column '{target.name}' of data file '{self.path}' holds Arrow type {column.type},"
                f" which does not fit {arrow_type}: {error}{way_out}",
                kind="column-type",
                path=self.path,
                column=target.name,
            ) from error

    def _cast(self, column: Array, source: DataField, target: DataField) -> Any:
        stored = self._read_stored(column, target, to_arrow_type(source.type))
        try:
            return cast_column(stored, source.type, target.type, self.casts)
        except InvalidInputError as error:
            raise error.with_message(
                f"Column '{target.name}'{self._of_table} cannot be read from data file"
                f" '{self.path}', where it is '{source.name}': {error.message}",
                table=self.table,
                column=target.name,
                path=self.path,
            ) from error


def _holds_shredded(arrow_type: Any) -> bool:
    inner = [arrow_type.field(number) for number in range(arrow_type.num_fields)]
    return _SHREDDED.issubset(each.name for each in inner) or any(
        _holds_shredded(each.type) for each in inner
    )


def _nullable(field: DataField) -> DataField:
    """Files may hold nulls where the read schema allows none: in rows that are filtered out."""
    return field if field.type.nullable else replace(field, type=replace(field.type, nullable=True))


def file_schema_of(
    schemas: Mapping[int, table_schema.TableSchema], schema_id: int, path: str
) -> table_schema.TableSchema:
    schema = schemas.get(schema_id)
    if schema is None:
        message = (
            f"Data file '{path}' was written with schema {schema_id}, which is not among the"
            f" table's schemas ({', '.join(map(str, sorted(schemas)))}), and the file does not"
            f" hold the ids of its columns. Restore 'schema/schema-{schema_id}' of the table."
        )
        raise FormatError(message, kind="schema-missing", path=path, schema_id=schema_id)
    return schema


def _coarsen(column: Array, arrow_type: Any) -> Any:
    """Cut timestamps that are finer than their column, as a cast does."""
    if not pat.is_timestamp(column.type) or not pat.is_timestamp(arrow_type):
        return column
    if UNIT_NANOS[column.type.unit] >= UNIT_NANOS[arrow_type.unit]:
        return column
    return pc.floor_temporal(column, unit=_UNIT_NAMES[arrow_type.unit])


_UNIT_NAMES: Mapping[str, Any] = {"s": "second", "ms": "millisecond", "us": "microsecond"}


def _is_pushable(part: pred.Predicate, held: Mapping[str, tuple[DataField, DataField]]) -> bool:
    """Whether a part of a predicate passes the same rows before the file's columns are cast."""
    if isinstance(part, pred.And | pred.Or):
        return all(_is_pushable(child, held) for child in part.children)
    if isinstance(part, pred.Applied) or part.field not in held:
        return False
    source, target = (column.type for column in held[part.field])
    if cast_rules.same_type(source, target):
        return True
    if not cast_rules.is_widened_integer(source, target):
        return False
    match part:
        case pred.IsNull():
            return True
        case pred.Comparison(literal=literal):
            return cast_rules.holds_integer(source, literal)
        case pred.In(literals=literals):
            return all(cast_rules.holds_integer(source, literal) for literal in literals)
        case _:
            return False


def key_value_fields(schema: table_schema.TableSchema) -> tuple[DataField, ...]:
    """Return the columns of a primary-key table's data files, in file order.

    Keys are stored twice: as `_KEY_<name>` and among the columns. Thin files lack the first, so
    readers use the columns.

    >>> from paimon_assets.engine.spec.schema.schema import Schema, first_table_schema
    >>> declared = Schema.of({"p": "INT", "id": "INT", "v": "INT"},
    ...                      primary_keys=["p", "id"], partition_keys=["p"])
    >>> [field.name for field in key_value_fields(first_table_schema(declared, time_millis=0))]
    ['_KEY_id', '_SEQUENCE_NUMBER', '_VALUE_KIND', 'p', 'id', 'v']
    """
    keys = (table_schema.key_field(field) for field in schema.key_fields)
    return (*keys, table_schema.SEQUENCE_NUMBER, table_schema.VALUE_KIND, *schema.fields)
