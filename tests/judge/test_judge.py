"""The judge at work: a minute of fixed seeds in each run; hours of new ones by ``pytest -m slow tests/judge``.

A fault is printed with its part, seed and number, by which it is repeated:
``python -m tests.judge --part PART --seed SEED --case NUMBER``.
"""

import os
import time

import pytest

from .court import run
from .parts import PARTS

#: Cases of each part in a usual run, with seed 0: a few seconds each.
USUAL = {
    "choosers": 80, "features": 80, "set-functions": 80, "solvers": 40, "proofs": 40, "softmax-proofs": 30,
    "stacks": 60, "doors": 30,
}  # fmt: skip
#: Seconds of each part in a slow run; the seed is the time, or what JUDGE_SEED says.
SLOW = float(os.environ.get("JUDGE_SECONDS", "1200"))


@pytest.fixture(autouse=True)
def _interpreted(interpreted):
    """Small problems of many kinds take longer to compile than to solve."""


@pytest.mark.parametrize("part", PARTS)
def test_fixed_cases(part):
    total = run(part, PARTS[part], 0, range(USUAL[part]))
    assert total.cases == USUAL[part]
    assert not total.faults, "\n".join([*total.faults, total.report()])


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_new_cases(part, capsys):
    seed = int(os.environ.get("JUDGE_SEED", time.time_ns() // 10**9))
    total = run(part, PARTS[part], seed, range(10**9), seconds=SLOW)
    with capsys.disabled():
        print(f"\nseed {seed}; {total.report()}")
    assert not total.faults, "\n".join([*total.faults, total.report()])
