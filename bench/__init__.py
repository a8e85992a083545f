"""asv suites (time_*, track_*, peakmem_*), pytest-benchmark files (bench_*.py with test_* functions), and scripts."""

import os

# Before the package is imported: what is measured is compiled, unless the environment says otherwise.
os.environ.setdefault("DRSUB_FAST_COMPILE", "now")
