"""Values of one type → values of another, column by column: the kernels of `spec.types.cast_rules`.

    cast_array      which kernel; nested types field by field
    ├── whole, real, decimals            numbers and booleans
    ├── texts, real_text, time_text      → CHAR, VARCHAR, BINARY, VARBINARY
    ├── parse_numbers, parse_decimals, parse_times     text →
    ├── times, zones                     dates, times, timestamps
    └── cast, arrays, calendar           what a kernel is given, Arrow ⇄ numpy, days ⇄ dates

Two dialects (`cast.dialect`) say what happens to values that do not fit: `java` as Java Paimon 2.0
does it, its oddities included, and `cpp` as paimon-cpp does it. Java's oddities worth knowing:

    TIMESTAMP → DATE before 1970 is one day late, except at midnight
    TIMESTAMP → TIMESTAMP(0..2), INT, BIGINT before 1970 cut milliseconds toward zero
    FLOAT, DOUBLE → text writes some numbers from 2⁵³ (FLOAT: 2²⁴) on with more digits than they
        need, as Java 8 to 18 do
    numbers → DECIMAL that do not fit become null; text that does not parse is an error

A timestamp that its Arrow type cannot hold (nanoseconds end in 2262) is an error, never another
time.
"""
