"""The end of a thread's time inside plain Python that does not look at the clock."""

import threading
from contextlib import suppress

import numpy as np
import pytest

from drsub_fast.engine.clock import OutOfTime, call_with_alarm, call_without_alarm, now, until
from drsub_fast.engine.jit import kernel


def endless():
    while True:
        pass


def for_long(seconds):
    end, steps = now() + seconds, 0
    while now() < end:
        steps += 1
    return steps


def test_an_endless_loop_ends_with_the_time_of_its_thread():
    with until(now() + 0.05), pytest.raises(OutOfTime):
        call_with_alarm(endless)


def test_each_thread_has_its_own_alarm():
    ended = []

    def solve(seconds):
        with until(now() + seconds):
            try:
                call_with_alarm(endless)
            except OutOfTime:
                ended.append(seconds)

    threads = [threading.Thread(target=solve, args=(0.02 * k,)) for k in (3, 2, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert sorted(ended) == [0.02, 0.04, 0.06]


@pytest.mark.parametrize("seconds", [0.0, 0.5e-4, 1e-4, 2e-4, 6e-3])
def test_no_alarm_comes_after_its_call(seconds):
    for _ in range(100):
        with until(now() + 1e-4), suppress(OutOfTime):
            call_with_alarm(for_long, seconds)
        for_long(1e-5)
    for_long(0.02)


def test_an_error_of_the_call_stays_the_error():
    def fails():
        for_long(0.02)
        raise ZeroDivisionError

    for _ in range(5):
        with until(now() + 0.02), pytest.raises((ZeroDivisionError, OutOfTime)):
            call_with_alarm(fails)
    for_long(0.02)


def test_a_call_of_a_users_function_is_not_divided():
    calls = []

    def call_for_ever():
        while True:
            calls.append(call_without_alarm(for_long, 0.05))

    with until(now() + 0.01), pytest.raises(OutOfTime):
        call_with_alarm(call_for_ever)
    assert len(calls) <= 1


def test_a_solve_inside_a_users_function_leaves_the_outer_alarm():
    def inner():
        with until(now() + 0.01), suppress(OutOfTime):
            call_with_alarm(endless)

    def outer():
        call_without_alarm(inner)
        endless()

    with until(now() + 0.05), pytest.raises(OutOfTime):
        call_with_alarm(outer)


@kernel
def counts(total, n):
    for _ in range(n):
        total[0] += 1.0
    return 0


def test_an_interpreted_kernel_gives_back_its_arrays(interpreted):
    total = np.zeros(1)
    run = counts.choose((total, 10**9))
    run.arrays = (total,)
    with until(now() + 0.02), pytest.raises(OutOfTime):
        run(total, 10**9)
    assert total[0] == 0.0
