"""The speed table measures what it says: same values, every kind of row. Its speeds are not asserted."""

import math

import pytest

from drsub_fast.cli.command import main
from drsub_fast.experiments import speed_table


def test_rows_compare_equal_values():
    rows = [
        *speed_table.warm_rows([(6, 4)], seconds=0.0),
        *speed_table.cold_rows([(6, 4)], seconds=0.0),
        *speed_table.gap_rows([6], seconds=0.0),
        *speed_table.softmax_rows([6], seconds=0.0),
        *speed_table.softmax_gap_rows([6], seconds=0.0),
        *speed_table.first_lp_rows([(6, 4)], seconds=0.0),
    ]
    assert {row.baseline for row in rows} >= {
        "numpy + cold linprog",
        "numpy + warm HiGHS",
        "numpy, oracle by sorting",
        "SciPy SLSQP",
        "HiGHS, cold",
    }
    for row in rows:
        assert row.ratio == row.baseline_time / row.time
        if row.agreement.startswith("values within"):
            assert float(row.agreement.split()[-1]) < 1e-9


def test_growth_fits_exponents():
    exponents, times, memory = speed_table.growth((16, 32, 64), seconds=0.0)
    assert all(map(math.isfinite, exponents))
    assert all(time > 0.0 for time in times)
    assert 1.0 < exponents[1] < 2.0
    # H, A and the tableau, and what is linear in n.
    assert 8 * 2.0 * 64**2 < memory[-1] < 8 * (2.0 * 64**2 + 60 * 64)


@pytest.mark.parametrize("command", ["bench", "warmup"])
def test_commands_explain_themselves(command, capsys):
    assert main([command, "--help"]) == 0
    assert command in capsys.readouterr().out
