"""The experiments: rows, summary, table, figure."""

import csv
import math
from io import StringIO

import pytest

import drsub_fast as ds
from drsub_fast.experiments import synthetic
from drsub_fast.experiments.synthetic import Row
from drsub_fast.instances import nonnegative_constant, paper_instances

FAST = {"nonmonotone-frank-wolfe": {"max_iter": 20}}


def row(rows="m = n", n=8, repeat=1, method="frank-wolfe", value=1.0, optimum=None):
    m = {"m = floor(0.5n)": n // 2, "m = n": n}[rows]
    return Row("quadratic-uniform", rows, n, m, repeat, method, value, 0.0, 1e-3, optimum)


def test_ratio_is_to_the_global_maximum_with_the_papers_constant():
    instance = next(paper_instances("quadratic-exponential", repeats=1, sizes=(8,)))
    (answer,) = synthetic.run_instance(instance, FAST)
    minimum = ds.global_minimum(instance.f, instance.P).value
    f = ds.Quadratic(instance.f.H, instance.f.h, nonnegative_constant(minimum))
    best = ds.global_maximum(f, instance.P)
    value = ds.nonmonotone_frank_wolfe(f, instance.P, max_iter=20).value
    assert answer.value == pytest.approx(value, rel=1e-12)
    assert answer.score == pytest.approx(value / best.value, rel=2e-6)
    assert 0.0 < answer.score <= 1.0
    assert (answer.family, answer.n, answer.m, answer.repeat) == ("quadratic-exponential", 8, 4, 1)


def test_softmax_and_no_global_are_scored_by_value():
    for family, ask in (("softmax-uniform", True), ("quadratic-uniform", False)):
        instance = next(paper_instances(family, repeats=1, sizes=(8,)))
        (answer,) = synthetic.run_instance(instance, FAST, global_optimum=ask)
        assert answer.optimum is None
        assert answer.score == answer.value
        assert answer.value == ds.nonmonotone_frank_wolfe(instance.f, instance.P, max_iter=20).value


def test_processes_give_the_same_rows(interpreted):
    families = ("quadratic-uniform", "softmax-uniform")

    def values(n_jobs):
        runs = synthetic.run_families(families, 2, (8,), FAST, global_optimum=False, n_jobs=n_jobs)
        return sorted((r.family, r.m, r.repeat, r.value) for rows in runs for r in rows)

    alone = values(1)
    assert values(3) == alone
    assert len(alone) == 12


def test_summary_is_mean_and_sample_deviation():
    rows = [row(value=1.0, optimum=2.0), row(value=2.0, optimum=2.0, repeat=2), row(n=10, value=3.0, optimum=4.0)]
    cells = synthetic.summarise(rows)
    assert cells["m = n", "frank-wolfe", 8] == (0.75, pytest.approx(math.sqrt(2) / 4), 2)
    assert cells["m = n", "frank-wolfe", 10] == (0.75, 0.0, 1)


def test_pairs_are_compared_on_the_same_instance():
    rows = [
        row(value=1.0),
        row(value=10.0, repeat=2),
        row(value=0.5, method="a"),
        row(value=10.0, method="a", repeat=2),
    ]
    cells = synthetic.paired(rows)
    assert cells["m = n", "frank-wolfe", 8] == (1.0, 0.0, 2)
    assert cells["m = n", "a", 8] == (0.75, pytest.approx(0.25), 2)


def test_few_repeats_are_said_to_be_few():
    rows = [row(repeat=repeat) for repeat in range(1, 6)]
    assert "may change places" in synthetic.format_table(rows[:2])
    assert "may change places" not in synthetic.format_table(rows)


def test_table_has_a_block_a_panel_and_a_line_a_curve():
    rows = [
        row(rows=rows, n=n, method="projected-gradient", value=n / 10)
        for rows in ("m = n", "m = floor(0.5n)")
        for n in (10, 8)
    ]
    lines = synthetic.format_table(rows).splitlines()
    assert lines[0] == "quadratic-uniform: function value, mean ± deviation of 1 repeat"
    assert lines[2].split() == ["m", "=", "floor(0.5n)", "n", "=", "8", "n", "=", "10"]
    assert lines[3].split() == ["projected-gradient", "0.8000", "±", "0.0000", "1.0000", "±", "0.0000"]
    assert lines[5].split()[:3] == ["m", "=", "n"]


def test_table_names_curves_that_the_paper_does_not_have():
    lines = synthetic.format_table([row(method="projected-gradient"), row(method="multi-start")]).splitlines()
    assert lines[3].split()[0] == "projected-gradient"
    assert lines[4].startswith("  multi-start (not in the paper) ")


def test_table_leaves_gaps_where_nothing_was_run():
    rows = [row(optimum=2.0), row(rows="m = floor(0.5n)", n=10, optimum=2.0)]
    text = synthetic.format_table(rows)
    assert " - " in text


def test_rows_survive_a_csv_file():
    stream = StringIO()
    synthetic.write_rows(stream, [], header=True)
    synthetic.write_rows(stream, [row(value=1 / 3)])
    stream.seek(0)
    (stored,) = csv.DictReader(stream)
    assert stored["value"] == "0.333333333333"
    assert stored["rows"] == "m = n"
    assert stored["optimum"] == ""


def test_figure_has_the_papers_panels_axes_and_legend(tmp_path):
    pytest.importorskip("matplotlib")
    from drsub_fast.experiments.synthetic_figures import draw_experiment, save_figure

    rows = [
        row(rows=rows, n=n, repeat=repeat, method=method, value=1.0 + repeat / 10, optimum=2.0)
        for rows in ("m = floor(0.5n)", "m = n")
        for n in (8, 10)
        for repeat in (1, 2)
        for method in (*synthetic.PAPER_METHODS, *synthetic.EXTRA_METHODS)
    ]
    figure = draw_experiment(rows)
    assert [axis.get_xlabel() for axis in figure.axes] == ["", "", "Dimensionality $n$", "Dimensionality $n$"]
    assert figure.get_suptitle().startswith("quadratic-uniform")
    assert figure.axes[0].get_ylabel() == "Approximation ratio"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "Two-phase Frank-Wolfe",
        "ProjGrad",
        "Non-monotone Frank-Wolfe",
        "Multi-start (not in the paper)",
    ]
    lines = [container.lines[0].get_linestyle() for container in figure.axes[0].containers]
    assert lines == ["-", "-", "-", "--"]
    curve = figure.axes[0].containers[0].lines[0]
    assert curve.get_ydata().tolist() == pytest.approx([0.575, 0.575])
    assert figure.axes[2].get_ylabel() == "Ratio to the best found"
    heights = {line.get_ydata()[0] for line in figure.axes[0].lines if len(set(line.get_ydata())) == 1}
    assert {1.0, 0.25, 1.0 / math.e} <= heights
    for path in save_figure(figure, tmp_path, "figure"):
        assert path.stat().st_size > 1000
