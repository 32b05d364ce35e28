"""Options of schema changes: which are allowed, and how old values become new ones.

Source: `org.apache.paimon.CoreOptions`.
"""

from enum import StrEnum

from paimon_assets.engine.spec.options.option import Option, Use, parse_zone


class CastDialect(StrEnum):
    """The rules that convert the values of a column whose type was changed."""

    JAVA = "java"
    CPP = "cpp"


NULL_TO_NOT_NULL_DISABLED = Option(
    "alter-column-null-to-not-null.disabled", True, "Whether nullable columns must stay nullable."
)
EXPLICIT_CASTS_DISABLED = Option(
    "disable-explicit-type-casting",
    False,
    "Whether a type may only change to one that loses nothing.",
)
ADD_COLUMN_BEFORE_PARTITION = Option(
    "add-column-before-partition",
    False,
    "Whether new columns go before the partition columns, not to the end.",
)
CAST_DIALECT = Option(
    "cast.dialect",
    CastDialect.JAVA,
    "Whose rules convert the values of a column whose type was changed: java or cpp.",
    use=Use.BOTH,
)
CAST_FLOAT_TO_BOOLEAN = Option(
    "cast.float-to-boolean",
    True,
    "Whether FLOAT and DOUBLE may become BOOLEAN (not zero); neither Java nor C++ does it.",
    use=Use.BOTH,
)
CAST_TIME_ZONE = Option(
    "cast.time-zone",
    "UTC",
    "Zone of casts between local times and TIMESTAMP WITH LOCAL TIME ZONE.",
    use=Use.BOTH,
    parse=parse_zone,
)
