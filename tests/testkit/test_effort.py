"""Tests that draw their input run in the suite too, if shortly."""


def test_suite_leaves_out_other_implementations_and_benchmarks_only(pytestconfig):
    options = pytestconfig.getini("addopts")
    assert options[options.index("-m") + 1] == "not interop and not bench"
