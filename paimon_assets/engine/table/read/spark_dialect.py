"""Spark's SQL as Spark 4 reads it, for filters of operations and for statements."""

from typing import ClassVar

from sqlglot.dialects.spark import Spark


class SparkSql(Spark):
    """Two quotes in a text are one; `t$files` is one name."""

    class Tokenizer(Spark.Tokenizer):
        """Its quotes and names."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}
