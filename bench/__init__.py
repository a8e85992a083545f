"""asv suites (time_*, track_*, peakmem_*), pytest-benchmark files (bench_*.py with test_* functions), and scripts."""
