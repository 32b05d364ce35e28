"""cast_array: one column by its kernel; cast_column: columns of any type, part by part.

ROW        fields of the same id; those the source lacks are null, those only it has are dropped
ARRAY      its elements; VECTOR likewise
MAP        its keys and values
atomic     cast_array
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from paimon_assets.engine.codec.arrow.arrow_types import has_required_fields, to_arrow_type
from paimon_assets.engine.data.casting.cast import UTC, Array, Cast
from paimon_assets.engine.data.nested import parts_of, types_inside, with_parts
from paimon_assets.engine.errors import UnsupportedFeatureError
from paimon_assets.engine.spec.options import all_options as opt
from paimon_assets.engine.spec.types.cast_rules import same_type
from paimon_assets.engine.spec.types.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    RowType,
    VectorType,
    inner_types,
)
from paimon_assets.engine.spec.values import Value


def cast_array(
    array: Array,
    source: DataType,
    target: DataType,
    *,
    dialect: opt.CastDialect = opt.CastDialect.JAVA,
    zone: str = UTC,
) -> Array:
    if same_type(source, target):
        return array
    from paimon_assets.engine.data.casting.kernels import KERNELS

    kernel = KERNELS.get((source.root, target.root))
    if kernel is None or not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        raise UnsupportedFeatureError(
            f"{source} cannot become {target}: there is no such cast.",
            kind="cast-missing",
            source_type=str(source),
            target_type=str(target),
        )
    return kernel(array, Cast(source=source, target=target, dialect=dialect, zone=zone))


class CastSettings(Value):
    dialect: opt.CastDialect = opt.CastDialect.JAVA
    zone: str = UTC
    float_to_boolean: bool = True

    @staticmethod
    def of(options: opt.Options) -> CastSettings:
        return CastSettings(
            dialect=options.get(opt.CAST_DIALECT),
            zone=options.get(opt.CAST_TIME_ZONE),
            float_to_boolean=options.get(opt.CAST_FLOAT_TO_BOOLEAN),
        )


def cast_column(
    array: Array, source: DataType, target: DataType, settings: CastSettings | None = None
) -> Array:
    """Cast a column to another type that `spec.types.cast_rules` allows."""
    settings = settings or CastSettings()
    arrow_type: Any = to_arrow_type(target)
    if array.type.equals(arrow_type) and same_type(source, target):
        return array
    parts = parts_of(array)
    match source, target:
        case RowType(), RowType():
            held = {f.id: (part, f.type) for f, part in zip(source.fields, parts, strict=True)}
            parts = [
                cast_column(*held[field.id], field.type, settings)
                if field.id in held
                else pa.nulls(len(array), arrow_field.type)
                for field, arrow_field in zip(target.fields, arrow_type, strict=True)
            ]
        case (ArrayType(), ArrayType()) | (VectorType(), VectorType()) | (MapType(), MapType()):
            inner = zip(parts, inner_types(source), inner_types(target), strict=True)
            parts = [cast_column(*each, settings) for each in inner]
        case _:
            return cast_array(array, source, target, dialect=settings.dialect, zone=settings.zone)
    return with_parts(array, parts, arrow_type)


def fit_column(array: Array, arrow_type: Any) -> Array:
    """Give a column another Arrow type of the same Paimon type.

    Arrow's own cast refuses a null row with NOT NULL fields, although these are null only below it.
    """
    held: Any = array.type
    if not has_required_fields(arrow_type) or held.id != arrow_type.id:
        return array.cast(arrow_type)
    if pat.is_struct(held) and held.names != arrow_type.names:
        return array.cast(arrow_type)
    parts = map(fit_column, parts_of(array), types_inside(arrow_type))
    return with_parts(array, list(parts), arrow_type)
