"""The end of a thread's time inside plain Python that does not look at the clock."""

import threading

import numpy as np
import pytest

from drsub_fast.engine.alarm import alarm, no_alarm
from drsub_fast.engine.clock import OutOfTime, now, until
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
    with until(now() + 0.05), pytest.raises(OutOfTime), alarm():
        endless()


def test_each_thread_has_its_own_alarm():
    ended = []

    def solve(seconds):
        with until(now() + seconds):
            try:
                with alarm():
                    endless()
            except OutOfTime:
                ended.append(seconds)

    threads = [threading.Thread(target=solve, args=(0.02 * k,)) for k in (3, 2, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert sorted(ended) == [0.02, 0.04, 0.06]


def test_no_alarm_comes_after_its_block():
    for _ in range(200):
        with until(now() + 1e-4):
            try:
                with alarm():
                    for_long(1e-4)
            except OutOfTime:
                pass
        for_long(1e-5)


def test_a_call_of_a_users_function_is_not_divided():
    calls = []

    def call_for_ever():
        while True:
            with no_alarm():
                calls.append(for_long(0.05))

    with until(now() + 0.01), pytest.raises(OutOfTime), alarm():
        call_for_ever()
    assert len(calls) == 1


def test_a_solve_inside_a_users_function_leaves_the_outer_alarm():
    def solve():
        with no_alarm(), alarm():
            pass
        endless()

    with until(now() + 0.05), pytest.raises(OutOfTime), alarm():
        solve()


@kernel
def counts(total, n):
    for _ in range(n):
        total[0] += 1.0
    return 0


def test_an_interpreted_kernel_gives_back_its_arrays():
    total = np.zeros(1)
    interpreted = counts.choose((total, 10**9), 0.0)
    interpreted.arrays = (total,)
    with until(now() + 0.02), pytest.raises(OutOfTime):
        interpreted(total, 10**9)
    assert total[0] == 0.0
