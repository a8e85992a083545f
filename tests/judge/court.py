"""Runs cases, and counts what was claimed, what was refused, and what was wrong."""

import re
import signal
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager

import numpy as np

import drsub_fast as ds

#: Errors by which a door may refuse; any other error is a fault.
REFUSALS = (ValueError, TypeError, ds.UnsupportedError, ds.OracleError)
#: A case that takes longer than this, in seconds of the processor, is a fault.
PATIENCE = 20.0


class EndlessError(BaseException):
    """A case that does not end."""


class Judge:
    """What one case, or many, came to.

    Attributes
    ----------
    cases : int
    judged : Counter
        By claim: how often it was judged.
    refused : Counter
        By door and words: answers that were refused though the problem is a fair one.
    faults : list of str
    """

    def __init__(self, name=""):
        self.name, self.cases = name, 0
        self.judged, self.refused, self.faults = Counter(), Counter(), []

    def check(self, door, claim, *facts):
        """Puts an answer's claim before its function."""
        self.judged[claim.__name__] += 1
        fault = claim(*facts)
        if fault:
            self.faults.append(f"{self.name}: {door}: {claim.__name__}: {fault}")
        return not fault

    def ask(self, door, call, *arguments, may_refuse=False, **options):
        """The answer of a door, or None. A refusal is a fault unless it may be one."""
        try:
            return call(*arguments, **options)
        except REFUSALS as error:
            if may_refuse:
                self.refused[f"{door}: {re.sub('[0-9]+', '#', str(error))[:70]}"] += 1
            else:
                self.faults.append(f"{self.name}: {door}: refused: {type(error).__name__}: {str(error)[:300]}")
        except Exception as error:
            self.faults.append(f"{self.name}: {door}: raised {type(error).__name__}: {str(error)[:300]}")
        return None

    def add(self, other):
        """Adds the counts of another."""
        self.cases += other.cases
        self.judged += other.judged
        self.refused += other.refused
        self.faults += other.faults

    def report(self):
        """The counts in words."""
        lines = [
            f"{self.name}: {self.cases} cases, {sum(self.judged.values())} claims judged, {len(self.faults)} wrong"
        ]
        lines += [f"    {count:8} {claim}" for claim, count in self.judged.most_common()]
        lines += [f"    refused {count:4} times by {words}" for words, count in self.refused.most_common(8)]
        return "\n".join(lines)


@contextmanager
def patience(seconds):
    """Raises `EndlessError` after so many seconds of the processor, where the platform can."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_):
        raise EndlessError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def run_case(part, case, seed, number):
    """The `Judge` of one case."""
    judge = Judge(f"{part} seed {seed} case {number}")
    judge.cases = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with patience(PATIENCE):
                case(np.random.default_rng([seed, number]), judge)
        except EndlessError:
            judge.faults.append(f"{judge.name}: no end after {PATIENCE:g} s")
        except Exception:
            judge.faults.append(f"{judge.name}: the judge: {traceback.format_exc(limit=-3)}")
    return judge


def run(part, case, seed, numbers, seconds=None, say=None):
    """The `Judge` of many cases, up to a number of seconds; ``say`` is called with each fault."""
    total, began = Judge(part), time.perf_counter()
    for number in numbers:
        if seconds is not None and time.perf_counter() - began > seconds:
            break
        one = run_case(part, case, seed, number)
        if say is not None:
            for fault in one.faults:
                say(fault)
        total.add(one)
    return total
