import signal
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import threadpoolctl

from drsub_fast.engine.interrupts import result_of, submit, uninterrupted, wait_for
from drsub_fast.engine.threads import one_blas_thread


def test_ctrl_c_waits_for_the_end_of_the_block():
    passed = []

    def block():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            passed.append("the rest of the block")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert passed == ["the rest of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_of_the_host_runs_once_after_the_outermost_block():
    told = []
    before = signal.signal(signal.SIGINT, lambda number, frame: told.append(number))
    try:
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
            assert told == []
        assert told == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_ignored_ctrl_c_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_where_the_host_keeps_signals_elsewhere_nothing_changes(monkeypatch):
    def refused(*_):
        raise ValueError("signal only works in main thread of the main interpreter")

    monkeypatch.setattr(signal, "signal", refused)
    with uninterrupted():
        pass


def test_an_error_of_the_block_passes():
    with pytest.raises(ZeroDivisionError), uninterrupted():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_threads_that_get_no_signals_may_use_it():
    with ThreadPoolExecutor(1) as pool:

        def block():
            with uninterrupted():
                return threading.current_thread() is threading.main_thread()

        assert result_of(submit(pool, block)) is False


def test_waiting_ends_with_as_many_futures_as_asked_for():
    first, second = Future(), Future()
    second.set_result(2)
    wait_for([first, second], at_least=1)
    first.cancel()
    wait_for([first, second])
    assert result_of(second) == 2


def test_waiting_is_interrupted_at_once():
    main = threading.main_thread().ident
    timer = threading.Timer(0.05, signal.pthread_kill, [main, signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        wait_for([Future()])
    timer.join()


def test_an_executor_that_solves_in_submit_is_interrupted():
    class Own:
        def submit(self, function):
            signal.raise_signal(signal.SIGINT)
            time.sleep(0)
            raise AssertionError("went on")

    with pytest.raises(KeyboardInterrupt):
        submit(Own(), print)


def test_ctrl_c_at_any_place_leaves_blas_as_it_was():
    def threads():
        return [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]

    def run(at):
        seen = 0

        def interrupt(frame, event, _):
            nonlocal seen
            seen += event in ("call", "c_return")  # where Python looks for signals
            if seen == at:
                signal.raise_signal(signal.SIGINT)

        sys.setprofile(interrupt)
        try:
            with one_blas_thread():
                pass
        except KeyboardInterrupt:
            return 0
        finally:
            sys.setprofile(None)
        return seen

    with threadpoolctl.threadpool_limits(2, "blas"):
        before = threads()
        places = run(0)
        assert places > 100
        for at in range(1, places):
            run(at)
            assert threads() == before, at
            with one_blas_thread():
                assert set(threads()) == {1}, at
