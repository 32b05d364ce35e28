"""Checks incoming batches against the table's schema, before anything is written; and row kinds.

    input batch → columns by name → exact Arrow types → nulls, lengths → defaults → table's batch

Conversions are lossless or refused: integers of any width that fit, larger string and binary
layouts, dictionaries, timestamp and time units, decimals, floats to wider floats, columns of nulls.
A batch that has the table's types already is not copied. A null becomes the column's default value,
as does a whole column that the rows lack.

Every row is +I unless the table names a `rowkind.field`. Kinds are read first, before filter,
bucket, sequence and merge; the column is stored unchanged.
Source: `org.apache.paimon.casting.DefaultValueRow`, `org.apache.paimon.utils.DefaultValueUtils`,
`org.apache.paimon.table.sink.RowKindGenerator`, `RowKindFilter`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from msgspec.structs import replace

from paimon_assets.engine.codec.arrow.arrow_types import to_arrow_schema, with_offsets
from paimon_assets.engine.codec.arrow.arrow_values import first_failing
from paimon_assets.engine.codec.arrow.numpy_columns import from_numpy, to_numpy
from paimon_assets.engine.data.casting.casting import CastSettings, cast_column
from paimon_assets.engine.data.nested import has_char, parts_of, without_blanks
from paimon_assets.engine.errors import Detail, InvalidInputError, PaimonError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.schema.schema import ROW_KIND, VALUE_KIND, TableSchema
from paimon_assets.engine.spec.types import data_types as types
from paimon_assets.engine.spec.values import Value
from paimon_assets.engine.spec.words import counted, sample

if TYPE_CHECKING:
    from paimon_assets.engine.data.merge.records import Kinds


_SHOWN_POSITIONS = 5
_MOST_DIGITS = 38
_TIMES = types.TIMESTAMP_ROOTS | {types.TypeRoot.DATE, types.TypeRoot.TIME}
_FIRST_DAY, _LAST_DAY = -719_528, 2_932_896
"""0000-01-01 and 9999-12-31: the years of DATE in Paimon. Python's begin with the year 1."""
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def column_defaults(schema: TableSchema, table: str) -> Mapping[str, pa.Scalar[Any]]:
    """Return the columns that have a default value, with it."""
    settings = CastSettings.of(schema.typed_options)
    defaults: dict[str, Any] = {}
    for field in schema.fields:
        text = field.default_value
        if text is None:
            continue
        quoted = len(text) > 1 and text.startswith("'") and text.endswith("'")
        plain = pa.array([text[1:-1] if quoted else text], pa.string())
        try:
            defaults[field.name] = cast_column(plain, types.string(), field.type, settings)[0]
        except PaimonError as error:
            raise InvalidInputError(
                f"Table '{table}': column '{field.name}' has the default value '{text}', which is"
                f" not a valid {field.type}: {error.message} Change or drop the default.",
                kind="default-value",
                table=table,
                column=field.name,
            ) from error
    return defaults


class InputCheck:
    """Checks the batches of one write, and converts them to the table's columns and types.

    Args:
        table: For messages.
        schema: The table's.
        new: Columns whose times are checked even without `WRITE_CHECK_TIMES`: an update's new
            values.
        stored: Whether the rest are values of the table, whose texts may be any bytes where a
            column was BYTES before.
    """

    def __init__(
        self,
        *,
        table: str,
        schema: TableSchema,
        new: frozenset[str] = frozenset(),
        stored: bool = False,
    ) -> None:
        options = schema.typed_options
        self._table, self.schema, self._new, self._stored = table, schema, new, stored
        self._rows_seen = 0
        self._accepted: pa.Schema | None = None
        self._target = to_arrow_schema(schema.fields)
        self._defaults: Mapping[str, Any] = column_defaults(schema, table)
        self._shows_values = options.get(opt.WRITE_SHOW_VALUES)
        self._checks_times = options.get(opt.WRITE_CHECK_TIMES)
        keys = () if options.get(opt.PRIMARY_KEY_NULLABLE) else schema.primary_keys
        fills = options.get(opt.WRITE_MERGE_SCHEMA) or options.get(opt.WRITE_FILL_MISSING)
        formats = {options.get(opt.FILE_FORMAT), options.get(opt.CHANGELOG_FILE_FORMAT)}
        formats |= set(options.get(opt.FILE_FORMAT_PER_LEVEL).values())

        def names(condition: Callable[[types.DataField], bool]) -> frozenset[str]:
            return frozenset(column.name for column in schema.fields if condition(column))

        self._required = names(lambda each: not each.type.nullable or each.name in keys)
        self._optional = names(
            lambda each: each.name in self._defaults or (fills and each.name not in self._required)
        )
        """Columns that rows may lack."""
        self._nested_rules = names(lambda each: has_rules_inside(each.type))
        self._chars = names(lambda each: "orc" in formats and has_char(each.type))
        """Columns with CHAR values whose blanks at the end are cut, as Java does in ORC files."""

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the table's columns, in its order and Arrow types."""
        if self._accepted is None or batch.schema != self._accepted:
            self._check_names(batch.schema)
            self._accepted = batch.schema
        columns, given = [], {*batch.schema.names}
        for column, arrow in zip(self.schema.fields, self._target, strict=True):
            default = self._defaults.get(column.name)
            if column.name not in given:
                nulls = pa.nulls(batch.num_rows, arrow.type)
                columns.append(nulls if default is None else pa.repeat(default, batch.num_rows))
                continue
            values = self._convert(with_offsets(batch.column(column.name)), arrow.type, column)
            if column.name in self._new or not self._stored:
                self._check_texts(values, column)
            self._check_values(values, column)
            if column.name in self._chars:
                values = without_blanks(values, column.type)
            if default is not None and values.null_count:
                values = pc.coalesce(values, default)
            columns.append(values)
        self._rows_seen += batch.num_rows
        return pa.RecordBatch.from_arrays(columns, schema=self._target)

    def _refuse(
        self,
        message: str,
        kind: str,
        column: str,
        cause: Exception | None = None,
        **details: Detail,
    ) -> NoReturn:
        raise InvalidInputError(
            f"Table '{self._table}': {message}",
            kind=kind,
            table=self._table,
            column=column,
            **details,
        ) from cause

    def _check_names(self, rows: pa.Schema) -> None:
        counts = Counter(rows.names)
        repeated = [name for name, count in counts.items() if count > 1]
        missing = [
            name
            for name in self.schema.field_names
            if name not in counts and name not in self._optional
        ]
        extra = [name for name in rows.names if name not in self.schema.by_name]
        unknown = (
            "the rows have columns the table does not have; drop or rename them, or set"
            f" '{opt.WRITE_MERGE_SCHEMA.key}' to true to add them"
        )
        if ROW_KIND.name in extra:
            kind_column = self.schema.typed_options.get(opt.ROWKIND_FIELD)
            unknown += f". '{ROW_KIND.name}' is of a read with row kinds: drop it" + (
                f", column '{kind_column}' has the same values"
                if kind_column
                else " after the rows of kind -U and -D, or write to a table that has such a STRING"
                f" column and '{opt.ROWKIND_FIELD.key}' = '{ROW_KIND.name}'"
            )
        problems = [
            f"{problem}: {', '.join(names)}"
            for names, problem in (
                (repeated, "the rows have columns that occur twice; drop or rename them"),
                (missing, "the rows lack columns of the table; add them, with nulls if need be"),
                (extra, unknown),
            )
            if names
        ]
        if problems:
            first = [*repeated, *missing, *extra][0]
            self._refuse(f"{'. And '.join(problems)}.", "input-columns", first)

    def _convert(self, values: Any, target: Any, column: types.DataField) -> Any:
        if values.type == target:
            return values
        if pat.is_null(values.type):
            return pa.nulls(len(values), target)
        plain = values.dictionary_decode() if pat.is_dictionary(values.type) else values
        if not is_lossless_family(plain.type, target):
            self._refuse_type(values, target, column)
        try:
            return _cast(plain, target)
        except pa.ArrowNotImplementedError as error:
            self._refuse_type(values, target, column, error)
        except pa.ArrowInvalid as error:
            bad = first_failing(plain, lambda part: _cast(part, target))
            self._refuse(
                f"column '{column.name}' is {column.type}; not every value of type {values.type} "
                f"in the rows fits it{self._example(plain, bad)}, row {self._rows_seen + bad}. "
                "Correct it, or alter the column to a type that holds it.",
                "input-value",
                column.name,
                error if self._shows_values else None,
                row=self._rows_seen + bad,
            )

    def _refuse_type(
        self, values: Any, target: Any, column: types.DataField, cause: Exception | None = None
    ) -> NoReturn:
        example = self._example(values.drop_null(), 0)
        more = ""
        if pat.is_floating(values.type) and pat.is_decimal(target):
            more = ", NaN and infinities as null, or declare it as DOUBLE"
        self._refuse(
            f"column '{column.name}' is {column.type} and needs Arrow type {target}, but the "
            f"rows have {values.type}{example}. Cast the column to {target} first{more}.",
            "input-type",
            column.name,
            cause,
            expected=str(target),
            actual=str(values.type),
        )

    def _check_texts(self, values: Any, column: types.DataField) -> None:
        """Refuse texts that are not UTF-8, and decimals of too many digits, of other libraries."""
        try:
            _check_bytes(values)
        except pa.ArrowInvalid as error:
            row = self._rows_seen + first_failing(values, _check_bytes)
            fault = "a text that is not valid UTF-8", "Decode it first, or declare it as BYTES"
            if "precision" in str(error):
                fault = "a decimal of more digits", "Correct it, or declare a larger precision"
            self._refuse(
                f"column '{column.name}' is {column.type}, but the rows hold {fault[0]}, row {row}."
                f" {fault[1]}.",
                "input-value",
                column.name,
                error,
                row=row,
            )

    def _check_values(self, values: Any, column: types.DataField) -> None:
        if values.null_count and column.name in self._required:
            rows = np.flatnonzero(to_numpy(values.is_null()))
            first = (rows[:_SHOWN_POSITIONS] + self._rows_seen).tolist()
            is_key = column.name in self.schema.primary_keys
            rule = "a primary-key column" if is_key else "NOT NULL"
            self._refuse(
                f"column '{column.name}' is {rule}, but null in {len(rows)} of "
                f"{counted(len(values), 'row')} (row{'s' * (len(rows) > 1)} "
                f"{', '.join(map(str, first))}{', …' if len(rows) > _SHOWN_POSITIONS else ''})."
                f" Fill the nulls{'' if is_key else ', or let the column have them'}.",
                "input-null",
                column.name,
                rows=len(rows),
            )
        whole = _Part("", values, column.type)
        self._check_length(whole, column, int)
        self._check_range(whole, column, int)
        inner = inner_parts(whole) if column.name in self._nested_rules else ()
        for number, part in enumerate(inner):
            row_of = partial(whole.row_of, number)
            if part.values.null_count and not part.type.nullable:
                row = row_of(pc.index(part.values.is_null(), True).as_py())
                self._refuse_value(row, column, "input-null", f"holds a null in {part.place}")
            self._check_length(part, column, row_of)
            self._check_range(part, column, row_of)

    def _refuse_value(
        self, row: int, column: types.DataField, kind: str, text: str, **details: int
    ) -> NoReturn:
        row += self._rows_seen
        message = f"column '{column.name}' is {column.type}, but {text}, row {row}."
        self._refuse(message, kind, column.name, None, row=row, **details)

    def _check_length(
        self, part: _Part, column: types.DataField, row_of: Callable[[int], int]
    ) -> None:
        values, limit = part.values, length_limit(part.type)
        if limit is None:
            return
        lengths = pc.binary_length(values)
        if _maximum(lengths) <= limit:  # bytes bound characters from above
            return
        unit = "bytes"
        if pat.is_string(values.type):
            lengths, unit = pc.utf8_length(values), "characters"
        longest = _maximum(lengths)
        if longest > limit:
            position = pc.index(lengths, longest).as_py()
            text = (
                f"the rows hold values of up to {longest} {unit}"
                f"{f' in {part.place}' if part.place else ''}{self._example(values, position)}"
            )
            self._refuse_value(row_of(position), column, "input-length", text, length=longest)

    def _check_range(
        self, part: _Part, column: types.DataField, row_of: Callable[[int], int]
    ) -> None:
        values, limits = part.values, _value_range(part.values.type)
        if limits is None or not (self._checks_times or column.name in self._new):
            return
        low, high, problem = limits
        if not has_odd_times(values):
            return
        numbers = to_numpy(values.view(f"int{values.type.bit_width}").fill_null(low))
        position = int(np.flatnonzero((numbers < low) | (numbers > high))[0])
        # A time of 24:00 would be shown as 00:00.
        examples = pa.array(numbers) if pat.is_time(values.type) else values
        text = (
            f"the rows hold values{f' in {part.place}' if part.place else ''} that are {problem}"
            f"{self._example(examples, position)}"
        )
        self._refuse_value(row_of(position), column, "input-range", text)

    def _example(self, values: Any, position: int) -> str:
        """Return one value as a part of a message; nothing for null or if values are hidden."""
        if position >= len(values) or not self._shows_values:
            return ""
        try:
            value = values[position].as_py()
        except OverflowError:  # a time outside Python's range
            value = pc.cast(values[position], pa.string()).as_py()
        except (ValueError, NotImplementedError):  # such as structs with one name twice
            return ""
        return "" if value is None else f", for example {sample(value)}"


def _value_range(arrow_type: Any) -> tuple[int, int, str] | None:
    """Return (lowest, highest number, description of numbers outside) of a type of times."""
    if pat.is_date32(arrow_type):
        return _FIRST_DAY, _LAST_DAY, "no dates of the years 0 to 9999"
    if pat.is_time(arrow_type):
        unit = arrow_type.unit
        return 0, _DAY[unit] - 1, f"no times from 00:00 to before 24:00 ({unit} of a day)"
    # In nanoseconds the largest number is a time in 2262.
    if pat.is_timestamp(arrow_type) and arrow_type.unit != "ns":
        day = _DAY[arrow_type.unit]
        low, high = _FIRST_DAY * day, (_LAST_DAY + 1) * day - 1
        return low, high, "infinite, or no times of the years 0 to 9999"
    return None


def has_odd_times(values: Any) -> bool:
    """Whether a column has dates or times, at any depth, that `WRITE_CHECK_TIMES` refuses."""
    if (limits := _value_range(values.type)) is None:
        return any(map(has_odd_times, parts_of(values)))
    extremes: Any = pc.min_max(values)
    low, high, _ = limits
    first, last = extremes["min"].value, extremes["max"].value
    return first is not None and not low <= first <= last <= high


def _check_bytes(values: Any) -> None:
    if pat.is_string(values.type) or pat.is_decimal(values.type):
        values.validate()
        if pat.is_decimal(values.type) or not _is_ascii(values):
            values.validate(full=True)
    for part in parts_of(values):
        _check_bytes(part)


def _is_ascii(texts: Any) -> bool:
    """Whether all bytes are ASCII, and the bounds of texts ascend: then each text is valid."""
    if not len(texts):
        return True
    _, places, content = texts.buffers()
    bounds = np.frombuffer(places, np.int32, len(texts) + 1, 4 * texts.offset)
    data = np.frombuffer(content or b"", np.int8)[bounds[0] : bounds[-1]]
    return bool(data.min(initial=0) >= 0) and bool((bounds[1:] >= bounds[:-1]).all())


def _cast(values: Any, target: Any) -> Any:
    """Cast without loss; Arrow casts integers only to decimals of many digits."""
    if pat.is_integer(values.type) and pat.is_decimal(target):
        values = values.cast(pa.decimal128(_MOST_DIGITS, min(target.scale, _MOST_DIGITS - 20)))
    if pat.is_struct(target) and values.null_count:
        # Inside a null row, NOT NULL fields may be null, too.
        valid = to_numpy(values.is_valid())
        indices = pa.array(np.cumsum(valid) - 1, mask=~valid)
        return values.drop_null().cast(target, safe=True).take(indices)
    return values.cast(target, safe=True)


def _maximum(lengths: Any) -> int:
    return int(pc.max(lengths).as_py() or 0)


_FAMILIES: tuple[tuple[Callable[[Any], bool], ...], ...] = (
    (pat.is_integer,),
    (pat.is_string, pat.is_large_string, pat.is_string_view),
    (pat.is_binary, pat.is_large_binary, pat.is_binary_view, pat.is_fixed_size_binary),
    (pat.is_date,),
    (pat.is_time,),
    (pat.is_decimal,),
)


def is_lossless_family(source: Any, target: Any) -> bool:
    """Whether a checked cast from one Arrow type to another is lossless or fails.

    >>> is_lossless_family(pa.int64(), pa.int8()), is_lossless_family(pa.float64(), pa.float32())
    (True, False)
    """
    if source == target or pat.is_null(source):
        return True
    if pat.is_nested(target):
        return _is_nested_lossless(source, target)
    if pat.is_timestamp(source) and pat.is_timestamp(target):
        return (source.tz is None) == (target.tz is None)
    if pat.is_floating(source) and pat.is_floating(target):
        return bool(source.bit_width <= target.bit_width)
    if pat.is_integer(source) and pat.is_decimal(target):
        return True
    return any(
        any(is_member(source) for is_member in family)
        and any(is_member(target) for is_member in family)
        for family in _FAMILIES
    )


def _is_nested_lossless(source: Any, target: Any) -> bool:
    if pat.is_map(target):
        return bool(
            pat.is_map(source)
            and is_lossless_family(source.key_type, target.key_type)
            and is_lossless_family(source.item_type, target.item_type)
        )
    if pat.is_struct(target):
        return bool(
            pat.is_struct(source)
            and [inner.name for inner in source] == [inner.name for inner in target]
            and all(map(is_lossless_family, (f.type for f in source), (f.type for f in target)))
        )
    if pat.is_fixed_size_list(target):
        if not pat.is_fixed_size_list(source) or source.list_size != target.list_size:
            return False
    elif not (pat.is_list(source) or pat.is_large_list(source) or pat.is_fixed_size_list(source)):
        return False
    return is_lossless_family(source.value_type, target.value_type)


class _Part(Value, kw_only=False):
    """The values of a column, or of one part of its nested values."""

    place: str
    values: Any
    type: types.DataType

    def row_of(self, number: int, position: int) -> int:
        """Return the row that holds a value of the part of this number; `inner_parts` counts."""

        def length(rows: int) -> int:
            first = replace(self, values=self.values.slice(0, rows))
            return len(next(islice(inner_parts(first), number, None)).values)

        return bisect_right(range(1, len(self.values)), position, key=length)


def inner_parts(outer: _Part) -> Iterator[_Part]:
    """Yield the parts of nested values, at any depth, outer parts first."""
    values = outer.values
    match outer.type:
        case types.ArrayType() | types.VectorType() | types.MultisetType():
            places = ["an element"]
        case types.MapType():
            places = ["a key", "a value"]
        case types.RowType(fields=fields):
            places = [f"field '{field.name}'" for field in fields]
            values = values.drop_null()  # inside a null row, NOT NULL fields may be null, too
        case _:
            return
    # The counts of a multiset have no type.
    for each in zip(places, parts_of(values), types.inner_types(outer.type), strict=False):
        part = _Part(*each)
        if outer.place:
            part = replace(part, place=f"{part.place} of {outer.place}")
        yield part
        yield from inner_parts(part)


def length_limit(data_type: types.DataType) -> int | None:
    """Return the characters or bytes a value may have; None: no limit."""
    if not isinstance(data_type, types.AtomicType) or data_type.length == types.MAX_LENGTH:
        return None
    return (
        data_type.length if data_type.root in types.CHARACTER_ROOTS | types.BINARY_ROOTS else None
    )


def has_rules_inside(data_type: types.DataType) -> bool:
    """Whether nested values of a type have limits of length or range, or may not be null."""
    return any(
        not part.nullable
        or length_limit(part) is not None
        or (isinstance(part, types.AtomicType) and part.root in _TIMES)
        or has_rules_inside(part)
        for part in types.inner_types(data_type)
    )


def with_kinds(batch: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
    """Add the column `_VALUE_KIND`."""
    return batch.append_column(VALUE_KIND.name, from_numpy(kinds))


def split_kinds(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Kinds]:
    """Inverse of `with_kinds`."""
    kinds: Kinds = to_numpy(batch.column(VALUE_KIND.name))
    return batch.drop_columns([VALUE_KIND.name]), kinds


def row_kinds(batch: pa.RecordBatch, schema: TableSchema) -> Kinds | None:
    """Return the `_VALUE_KIND` byte of each row, or None if every row is +I."""
    name = schema.typed_options.get(opt.ROWKIND_FIELD)
    return parse_kinds(batch.column(name), name) if name else None


def parse_kinds(column: Any, name: str) -> Kinds:
    """Return the `_VALUE_KIND` bytes of a column of short texts."""
    if column.null_count:
        message = (
            f"Row kind cannot be null: column '{name}' is null in {column.null_count} of "
            f"{counted(len(column), 'row')}; expected one of +I, -U, +U, -D."
        )
        raise InvalidInputError(message, kind="row-kind", column=name, rows=column.null_count)
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()  # a handful, however many rows
    text_kinds = [types.BY_SHORT_TEXT.get(text.upper()) for text in texts]
    if None in text_kinds:
        text = texts[text_kinds.index(None)]
        message = (
            f"Unsupported short string '{text}' for row kind in column '{name}'; expected one of "
            "+I, -U, +U, -D."
        )
        raise InvalidInputError(message, kind="row-kind", column=name, value=text)
    kinds: Kinds = np.array(text_kinds, dtype=np.int8)
    indices: npt.NDArray[np.int32] = to_numpy(encoded.indices)
    return kinds[indices]


def without_ignored(
    batch: pa.RecordBatch, schema: TableSchema
) -> tuple[pa.RecordBatch, Kinds | None]:
    """Return rows and kinds without those that `ignore-delete` and its like leave out."""
    kinds, options = row_kinds(batch, schema), schema.typed_options
    if kinds is None:
        return batch, None
    mask = np.ones(len(kinds), dtype=np.bool_)
    if options.get(opt.IGNORE_DELETE):
        from paimon_assets.engine.data.merge.records import adds

        mask = adds(kinds)
    elif options.get(opt.IGNORE_UPDATE_BEFORE):
        mask = kinds != types.RowKind.UPDATE_BEFORE
    return (batch, kinds) if mask.all() else (batch.filter(from_numpy(mask)), kinds[mask])


def refuse_retracts(kinds: Kinds | None, schema: TableSchema) -> None:
    """Refuse -U and -D on a table without a primary key."""
    if kinds is None or schema.has_primary_key:
        return
    from paimon_assets.engine.data.merge.records import adds

    retracts = np.flatnonzero(~adds(kinds))
    if not len(retracts):
        return
    kind = types.RowKind(int(kinds[retracts[0]]))
    name = schema.typed_options.get(opt.ROWKIND_FIELD)
    raise InvalidInputError(
        f"Append only writer can not accept row with RowKind {kind.short_text}: {len(retracts)} "
        f"rows of column '{name}' retract, but the table has no primary key. Set 'ignore-delete' "
        "to drop them.",
        kind="row-kind",
        column=name,
        value=kind.short_text,
        rows=len(retracts),
    )
