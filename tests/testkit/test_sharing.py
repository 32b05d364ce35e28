from tests.testkit.sharing import SPARK_SECONDS, WEIGHTS, deal, uses_session, weigh


def test_lanes_are_of_one_weight_and_keep_files_whole():
    weights = {"a": 50.0, "b": 30.0, "c": 25.0, "d": 3.0, "e": 2.0}
    dealt = deal(weights, 2)
    loads = [sum(weights[file] for file in dealt if dealt[file] == lane) for lane in (0, 1)]
    assert dealt.keys() == weights.keys()
    assert sorted(loads) == [55.0, 55.0]


def test_a_file_nobody_measured_has_a_weight():
    found = weigh(["tests/new/test_a.py::test_b", "tests/spark/test_new.py::test_c[d::e]"])
    assert 0 < found["tests/new/test_a.py"] < found["tests/spark/test_new.py"] == SPARK_SECONDS


def test_what_was_measured_wins():
    file, seconds = next(iter(WEIGHTS.items()))
    assert weigh([f"{file}::test_a"]) == {file: seconds}


def test_pages_of_the_docs_use_the_one_session_and_the_demo_does_not():
    assert uses_session("tests/e2e/test_docs.py::test_a_page_runs[sql.md]")
    assert not uses_session("tests/e2e/test_demo.py::test_all_of_it_on_spark")
