"""The speed table measures what it says: same values, every kind of row. Its speeds are not asserted."""

import math

import pytest

from drsub_fast.cli.command import main
from drsub_fast.experiments import peers, speed_table


def test_rows_compare_equal_values():
    rows = [
        *speed_table.warm_rows([(6, 4)], seconds=0.0),
        *speed_table.cold_rows([(6, 4)], seconds=0.0),
        *speed_table.gap_rows([6], seconds=0.0),
        *speed_table.softmax_rows([6], seconds=0.0),
        *speed_table.softmax_gap_rows([6], seconds=0.0),
        *speed_table.first_lp_rows([(6, 4)], seconds=0.0),
        *speed_table.global_rows([(4, 2)], seconds=0.0),
        *speed_table.selection_rows([(12, 3)], seconds=0.0),
        *speed_table.greedy_map_rows([(12, 5, 3)], seconds=0.0),
        *speed_table.service_rows([(9, 5, 3)], seconds=0.0),
        *speed_table.sparse_rows([40], seconds=0.0),
    ]
    assert {row.baseline for row in rows} >= {
        "numpy + cold linprog",
        "numpy + warm HiGHS",
        "numpy, oracle by sorting",
        "SciPy SLSQP",
        "SciPy trust-constr",
        "lazy greedy in numpy",
        "numpy's greedy",
        "scipy.sparse, argpartition",
        "HiGHS, cold",
    }
    for row in rows:
        if row.agreement.startswith("values within"):
            assert float(row.agreement.split()[-1]) < (1e-5 if row.task == "global_maximum" else 1e-9)
        if row.task in ("greedy_map", "greedy_map_stacked"):
            assert row.agreement == "same items 100%" or row.agreement.startswith("values within")
        if row.task.startswith("greedy,"):
            assert row.agreement == "value +0.00%"


def test_peers_that_are_not_installed_are_left_out_by_name(monkeypatch):
    absent = peers.Peer("Nobody", "no_such_module", "rivals", None)
    assert peers.installed((absent, *peers.SELECTION[:1])) == [peers.SELECTION[0]]
    for kind in ("LOCAL", "GLOBAL", "SELECTION", "CHOICE"):
        monkeypatch.setattr(peers, kind, (absent,) if kind == "LOCAL" else ())
    assert "Nobody; pip install 'drsub_fast[rivals]', in a checkout '.[rivals]'" in peers.missing()
    monkeypatch.setattr(peers, "LOCAL", ())
    assert peers.missing() == ""


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
