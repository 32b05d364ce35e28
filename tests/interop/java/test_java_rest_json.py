"""Java reads and writes the golden documents of REST catalogs."""

import json

import pytest

from tests.interop.environment import ROOT
from tests.testkit.oracle import Oracle

pytestmark = pytest.mark.interop


def test_java_writes_golden_documents(java: Oracle) -> None:
    lines = (ROOT / "tests" / "golden" / "rest_json.jsonl").read_text().splitlines()
    vectors = [json.loads(line) for line in lines]
    written = [
        java.call("rest_json", **{"class": each["java"], "text": each["read"]}) for each in vectors
    ]
    assert written == [each["written"] for each in vectors]
