import gc

from paimon_assets.engine.control.scan.file_store_scan import without_collector


def test_the_last_holder_lets_the_collector_run_again():
    assert gc.isenabled()
    first, second = without_collector(), without_collector()
    with first:
        with second:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with without_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
