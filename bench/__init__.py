"""asv suites (time_*, track_*, peakmem_*) and pytest-benchmark files (bench_*.py with test_* functions)."""
