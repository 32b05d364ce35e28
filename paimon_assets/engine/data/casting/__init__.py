"""Values of one type → values of another, column by column: the kernels of `spec.types.cast_rules`.

    casting            nested types field by field
    ├── kernels        which kernel, of all below; lengths of texts and bytes
    ├── numbers        integers, floating point, booleans ⇄ each other and text
    ├── decimals       DECIMAL ⇄ numbers and text
    ├── times          dates, times, timestamps ⇄ each other and text
    └── cast           the parameters of a kernel, Arrow ⇄ numpy

Two dialects (`cast.dialect`) treat values that do not fit: `java` as Java Paimon 2.0, its oddities
included, and `cpp` as paimon-cpp. Java's oddities worth knowing:

    TIMESTAMP → DATE before 1970 is one day late, except at midnight
    TIMESTAMP → TIMESTAMP(0..2), INT, BIGINT before 1970 cut milliseconds toward zero
    FLOAT, DOUBLE → text writes some numbers from 2⁵³ (FLOAT: 2²⁴) on with more digits than they
        need, as Java 8 to 18 do
    numbers → DECIMAL that do not fit become null; text that does not parse is an error

A timestamp that its Arrow type cannot hold (nanoseconds end in 2262) is an error, never another
time.
"""
