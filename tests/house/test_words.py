"""Messages: one row is no rows, and what is missing is named by what a person installs."""

import builtins
import importlib
from typing import Any

import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.fileio.base import FileIOSpec
from paimon_assets.engine.fileio.opening import open_file_io
from paimon_assets.engine.spec.words import counted
from paimon_assets.executors import spark_module


def test_a_noun_follows_its_number() -> None:
    assert [counted(count, "table") for count in (0, 1, 2000)] == [
        "0 tables",
        "1 table",
        "2,000 tables",
    ]


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Let imports of a package fail as if it were not installed."""
    real_import, real_module = builtins.__import__, importlib.import_module

    def refuse(name: str) -> None:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named '{package}'", name=package)

    def new_import(name: str, *args: Any, **options: Any) -> Any:
        refuse(name)
        return real_import(name, *args, **options)

    def new_module(name: str, *args: Any) -> Any:
        refuse(name)
        return real_module(name, *args)

    monkeypatch.setattr(builtins, "__import__", new_import)
    monkeypatch.setattr(importlib, "import_module", new_module)


def test_a_missing_s3fs_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "s3fs")
    with pytest.raises(InvalidInputError, match=r"s3fs.*install paimon-assets\[s3\]"):
        open_file_io(FileIOSpec(scheme="s3", options={}))


def test_a_missing_spark_names_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "py4j")
    with pytest.raises(InvalidInputError, match="package 'pyspark' is not installed"):
        spark_module("py4j.protocol")


def test_an_unknown_storage_is_called_so() -> None:
    with pytest.raises(InvalidInputError, match="'nowhere' is unknown"):
        open_file_io(FileIOSpec(scheme="nowhere", options={}))
