"""docs/errors.md lists the kinds of errors that the code raises; tests take their ways out."""

import ast
import re

from tests.house.errors_page import CLASSES, COMMAND, PAGE, ROOT, errors_made, page, text_of

_VERBS = (
    "add alter annotate cast change choose compact compute correct create declare delete do drop"
    " evolve fill filter follow give hand have ingest install keep land leave let load look make"
    " mend move name open overwrite pass pip plan put raise read refresh remove rename repeat"
    " replace reset restore return roll run say set shorten show split start stop take try unset"
    " use write"
)
_WAY = re.compile(rf"(?i)(?:[.;:,(]|\b(?:or|and|else|then)) ?\b(?:{_VERBS.replace(' ', '|')})\b")
_LEAST = 12
"""Characters of a part of a message that are no accident."""
UNTAKEN = frozenset(
    """
    avro-type branch-audit branch-behind branch-overtaken bucket-count bucket-mode
    bucket-not-found catalog-lock cdc-computed cdc-format cdc-position cdc-schema cdc-types
    change-null column-not-found commit-kind component data-tokens deletion-vector
    document-conflict erase-managed erase-missing-file erase-overtaken
    external-tables file-changed file-not-found file-schema forked
    ingestion-conflict input-rows int96-calendar io-manager kafka kafka-partitions
    kafka-position kafka-record kafka-setting kafka-topic key-index key-type-change
    ledger-expired library-missing manifest-size missing-package
    orc-timestamp orc-zone orphan-files path-outside removed-files rest-package
    rollback-raced row-position schema-changed schema-conflict schema-missing
    schema-registry segment-refreshed segment-registry sequence-null sequence-overflow
    server-missing snapshot-listing spark-format-create spark-format-stream
    spark-format-write spark-missing spark-options spark-session-settings spark-timestamp
    spark-type sql-needs-spark storage-endpoint storage-scheme streaming-query
    timestamp-calendar unsupported-iceberg-catalog unsupported-iceberg-file variant-shredded
    view view-columns view-input view-version
    """.split()  # noqa: SIM905
)
"""Kinds of which no test takes the way out yet: outages, other engines, Spark, much memory."""


def test_page_lists_all_raised_errors() -> None:
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == page(), f"docs/errors.md is not what the code raises; run: {COMMAND}"
    assert [name for name in CLASSES if f"| `{name}` |" not in written] == []


def test_way_out_of_each_kind_is_taken() -> None:
    texts = {
        node.value
        for path in (ROOT / "tests").rglob("test_*ways_out.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    untaken = set()
    for kind, _, arguments in errors_made():
        message = text_of(arguments[0]) if arguments else ""
        parts = (text for text in texts if len(text) >= _LEAST and text in message)
        if _WAY.search(message) and kind not in texts and not any(parts):
            untaken.add(kind)
    assert untaken == UNTAKEN, "take the way out in a test_*ways_out.py, and keep the list right"
