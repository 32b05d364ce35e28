"""Values of one type → values of another, column by column: the kernels of `spec.types.cast_rules`.

    columns, casting       nested types field by field; which kernel
    ├── numbers            integers, floating point, booleans, and text → these
    ├── decimals           DECIMAL → numbers, text; integers → DECIMAL
    ├── to_decimal         text, FLOAT, DOUBLE → DECIMAL
    ├── texts, real_text   lengths of texts and bytes; FLOAT, DOUBLE → text
    ├── times, parse_times dates, times, timestamps; text → these
    ├── cast, arrays       the parameters of a kernel, Arrow ⇄ numpy
    └── losses             the values that a cast does not keep

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
