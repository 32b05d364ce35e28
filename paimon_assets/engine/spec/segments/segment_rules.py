"""Checks of ADD SEGMENT before it adds files: the partition option, and columns.

Checks and their words are CarbonData's; where Paimon's readers would return wrong values (another
letter case, a text without an annotation) the rules are stricter.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from paimon_assets.engine.errors import FormatError, InvalidInputError
from paimon_assets.engine.spec.schema.schema import TableSchema
from paimon_assets.engine.spec.types.cast_rules import same_type
from paimon_assets.engine.spec.types.data_types import (
    BINARY_ROOTS,
    CHARACTER_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)
from paimon_assets.engine.spec.types.type_text import parse_type

_CARBON_WORDS = {"long": "bigint", "short": "smallint", "byte": "tinyint"}
_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
TIMESTAMP_OF_ANY_KIND = "INT96"
"""Type text of Parquet's oldest timestamp, which does not say whether it is an instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    """A column of an external file."""

    name: str
    type_text: str
    """A Paimon type, `INT96`, or Arrow's name of a type that Paimon does not have."""
    may_be_null: bool = True

    @property
    def type(self) -> DataType | None:
        """The Paimon type, None if there is none."""
        return _parse(self.type_text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> DataType | None:
    try:
        return parse_type(text)
    except FormatError:
        return None


def parse_partition_option(
    text: str, options: Mapping[str, str]
) -> tuple[tuple[str, DataType], ...]:
    """Parse `name:string,age:int`, in any letter case, blanks allowed.

    Args:
        text: The option.
        options: All options, for the message.

    Raises:
        InvalidInputError: An item has not exactly one colon, or a type is unknown.

    >>> [(name, str(found)) for name, found in parse_partition_option("A : Long , b:decimal(4,2)", {})]
    [('a', 'BIGINT'), ('b', 'DECIMAL(4, 2)')]
    """  # noqa: E501 - the example
    columns = []
    for item in _OUTSIDE_PARENTHESES.split(text):
        name, colon, word = (part.strip().lower() for part in item.partition(":"))
        if not colon or not name or ":" in word:
            shown = ", ".join(f"{key} -> {value}" for key, value in options.items())
            raise InvalidInputError(
                f"invalid partition option: Map({shown}). Write the table's partition columns with "
                "their types, such as name:string,age:int.",
                kind="segment-partition-option",
            )
        try:
            columns.append((name, parse_type(_CARBON_WORDS.get(word, word))))
        except FormatError as error:
            raise InvalidInputError(
                f"unsupported data type: {word} of partition column '{name}'; write a type such as "
                "string, int, long or date.",
                kind="segment-partition-type",
                details={"column": name},
            ) from error
    return tuple(columns)


def check_partition_option(
    table: str, schema: TableSchema, text: str | None, options: Mapping[str, str]
) -> None:
    """Check the partition option against the table: rules 11 to 15 of CarbonData, in order."""
    keys = schema.partition_fields
    wanted = ",".join(f"{key.name}:{_word(key.type)}" for key in keys)
    if text is None and keys:
        raise InvalidInputError(
            f"partition option is required when adding segment to partition table {table}; give "
            f"partition = {wanted}.",
            kind="segment-partition-required",
        )
    if text is None:
        return
    if not keys:
        # An option that does not parse is the earlier error in the list.
        parse_partition_option(text, options)
        raise InvalidInputError(
            f"Invalid option: partition, {table} is not a partitioned table; leave it out.",
            kind="segment-partition-option",
        )
    given = parse_partition_option(text, options)
    same = len(given) == len(keys) and all(
        name == key.name.lower() and same_kind(found, key.type)
        for (name, found), key in zip(given, keys, strict=True)
    )
    if not same:
        shown = ",".join(f"{name}:{_word(found)}" for name, found in given)
        raise InvalidInputError(
            f"Partition is not same. Carbon table partition is : {wanted} and input segment "
            f"partition is : {shown}. Give partition = {wanted} for table {table}.",
            kind="segment-partition-differs",
        )


def _word(data_type: DataType) -> str:
    return str(data_type).removesuffix(" NOT NULL").lower().replace(" ", "")


def column_differences(
    schema: TableSchema, columns: Sequence[FileColumn], *, partitioned: bool
) -> tuple[str, ...]:
    """Return the differences between a file's columns and the table's; empty if it fits."""
    by_name = {column.name: column for column in columns}
    folded = {column.name.lower(): column.name for column in columns}
    spellings = Counter(column.name.lower() for column in columns)
    differences = []
    for wanted in schema.fields:
        if partitioned and wanted.name in schema.partition_keys:
            continue
        found = by_name.get(wanted.name)
        if found is None:
            differences.append(_missing(wanted, folded.get(wanted.name.lower())))
            continue
        difference = _type_difference(wanted, found)
        if difference is not None:
            differences.append(difference)
        elif spellings[wanted.name.lower()] > 1:
            differences.append(
                f"column '{wanted.name}' stands beside one that differs in letter case alone: "
                "readers that ignore the case, as Spark's own, refuse such files"
            )
        elif not wanted.type.nullable and found.may_be_null:
            differences.append(
                f"column '{wanted.name}' is NOT NULL, and the file holds nulls or does not say "
                "that it holds none"
            )
    return tuple(differences)


def _missing(wanted: DataField, other_case: str | None) -> str:
    if other_case is None:
        return f"column '{wanted.name}' {_show(wanted.type)} is missing"
    return (
        f"column '{wanted.name}' is called '{other_case}': Paimon's readers match the letter case "
        "and would return nulls; rename the table's column or write the files anew"
    )


def _type_difference(wanted: DataField, found: FileColumn) -> str | None:
    if found.type_text == TIMESTAMP_OF_ANY_KIND and wanted.type.root in TIMESTAMP_ROOTS:
        return None
    actual = found.type
    if actual is not None and same_kind(actual, wanted.type):
        return None
    hint = ""
    if actual is not None and {actual.root, wanted.type.root} == {
        TypeRoot.VARBINARY,
        TypeRoot.VARCHAR,
    }:
        hint = ", a text without the annotation that says so" * (actual.root in BINARY_ROOTS)
    elif actual is not None and {actual.root, wanted.type.root} == TIMESTAMP_ROOTS:
        hint = ", which are instants on one side and wall-clock times on the other"
    shown = found.type_text if actual is None else _show(actual)
    return f"column '{wanted.name}' is {_show(wanted.type)} in the table and {shown} in it{hint}"


def _show(data_type: DataType) -> str:
    return str(data_type).removesuffix(" NOT NULL")


def same_kind(found: DataType, wanted: DataType) -> bool:
    """Whether files hold a type as the table declares it.

    Lengths of texts and bytes, precision of times, nullability and ids do not count.
    """
    match found, wanted:
        case (ArrayType(element=a), ArrayType(element=b)):
            return same_kind(a, b)
        case (MultisetType(element=a), MultisetType(element=b)):
            return same_kind(a, b)
        case (MapType(key=a, value=c), MapType(key=b, value=d)):
            return same_kind(a, b) and same_kind(c, d)
        case (RowType(fields=these), RowType(fields=those)):
            inner = {column.name: column.type for column in these}
            return all(
                column.name in inner and same_kind(inner[column.name], column.type)
                for column in those
            )
        case _:
            pass
    for roots in (CHARACTER_ROOTS, BINARY_ROOTS, frozenset({TypeRoot.TIME})):
        if wanted.root in roots:
            return found.root in roots
    if wanted.root in TIMESTAMP_ROOTS:
        return found.root is wanted.root
    return same_type(found, wanted)
