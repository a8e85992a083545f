"""Matched summarization and the recommendation of digits."""

import gzip
import json

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast import reference
from drsub_fast.cli.command import main
from drsub_fast.experiments import debates, digits
from drsub_fast.experiments.debates import Statement, SummaryRow
from drsub_fast.experiments.synthetic import PAPER_METHODS

pytest.importorskip("sklearn")

_WORDS = {
    "ADA": ["taxes budget", "border fence", "energy oil", "jobs factory"],
    "BEN": ["budget deficit", "fence wall", "oil drilling", "factory wages"],
    "CAL": ["deficit debt", "wall guards", "wages hours"],
}


@pytest.fixture
def statements():
    return [
        Statement(speaker, f"2012-01-{day:02}", f"{speaker.lower()}{day} {words}")
        for speaker, said in _WORDS.items()
        for day, words in enumerate(said, 1)
    ]


@pytest.fixture
def frequent_words(monkeypatch):
    """In eleven statements a word said twice is in more than a tenth."""
    monkeypatch.setattr(debates, "_MOST_FREQUENT", 0.5)


@pytest.fixture(scope="session")
def matched(shared_data):
    return debates.matched_tasks(debates.read_statements(shared_data / "debates" / "republican_2012.jsonl.gz"))


def test_statements_are_read_plain_and_gzipped(tmp_path, statements):
    lines = "\n".join(json.dumps(s._asdict() | {"extra": 1}) for s in statements)
    plain, packed = tmp_path / "s.jsonl", tmp_path / "s.jsonl.gz"
    plain.write_text(lines, encoding="utf-8")
    packed.write_bytes(gzip.compress(lines.encode()))
    assert debates.read_statements(plain) == debates.read_statements(packed) == statements


@pytest.mark.parametrize("line", ["{", '{"speaker": "ADA", "date": "2012"}', "[1]"])
def test_a_bad_line_is_named(tmp_path, line):
    path = tmp_path / "s.jsonl"
    path.write_text('{"speaker": "ADA", "date": "2012", "text": "taxes"}\n' + line, encoding="utf-8")
    with pytest.raises(ValueError, match=r"s\.jsonl, line 2: no record"):
        debates.read_statements(path)


@pytest.mark.usefixtures("frequent_words")
def test_tasks_pair_each_statement_with_its_best_match(statements):
    tasks = debates.matched_tasks([*statements, Statement("ADA", "2012-01-09", "yes")])
    assert [(task.left, task.right) for task in tasks] == [("ADA", "BEN"), ("ADA", "CAL"), ("BEN", "CAL")]
    first = tasks[0]
    # Each of the four says one thing that one of the other's statements takes up; "yes" is too short.
    assert [(a.date, b.date) for a, b in first.pairs] == [(f"2012-01-0{day}", f"2012-01-0{day}") for day in range(1, 5)]
    np.testing.assert_allclose(first.similarity.diagonal(), 1.0)
    # Ties pair the rest with the first; no pair twice.
    for task in tasks:
        assert len(set(task.pairs)) == len(task.pairs) == task.constraint.n
        assert task.match.min() >= 0.0
        assert task.match.max() <= 1.0
    # The last two share words in some pairs and none in others.
    assert (tasks[2].match.min(), tasks[2].match.max()) == (0.0, 1.0)
    # ceil(2 sqrt(4)) = 4 topics for 4 statements: every statement is its own.
    assert first.constraint.contains(np.ones(4))


@pytest.mark.usefixtures("frequent_words")
def test_the_kernel_weighs_matches(statements):
    task = debates.matched_tasks(statements)[1]
    q = np.exp(0.35 * task.match)
    np.testing.assert_allclose(task.objective(0.7).L, np.outer(q, q) * task.similarity, atol=1e-12)


@pytest.mark.usefixtures("frequent_words")
def test_one_speaker_is_not_enough(statements):
    with pytest.raises(ValueError, match=r"two speakers are needed, these are of \['ADA'\]"):
        debates.matched_tasks(statements[:4])


def test_the_debates_have_28_tasks_that_do_not_change(matched):
    assert len(matched) == 28
    sizes = [task.constraint.n for task in matched]
    assert (min(sizes), max(sizes)) == (67, 199)
    for task in matched[:3]:
        speakers = {(a.speaker, b.speaker) for a, b in task.pairs}
        assert speakers == {(task.left, task.right)}
        assert np.linalg.matrix_rank(task.similarity) == task.constraint.n  # so that L is used, not a factor


def test_methods_agree_with_the_reference_on_a_debate(matched):
    task = next(task for task in matched if (task.left, task.right) == ("CAIN", "HUNTSMAN"))
    f, P = task.objective(0.5), task.constraint
    for method in ("nonmonotone_frank_wolfe", "projected_gradient"):
        mine = getattr(ds, method)(f, P, max_iter=8)
        theirs = getattr(reference, method)(f, P, max_iter=8)
        np.testing.assert_allclose(mine.trace.value, theirs.trace.value, atol=1e-6)


def test_the_order_of_the_methods_on_the_debates(matched):
    small = sorted(matched, key=lambda task: task.constraint.n)[:6]
    methods = {name: options | {"max_iter": 50} for name, options in PAPER_METHODS.items()}
    rows = [row for new in debates.run_tasks(small, (0.1, 1.0), methods, n_jobs=2) for row in new]
    assert [(row.strength, row.method) for row in rows[:3]] == [(0.1, name) for name in methods]
    assert len(rows) == 36
    means = debates.mean_over_tasks(rows, lambda row: row.value)
    names = ("two-phase-frank-wolfe", "nonmonotone-frank-wolfe", "projected-gradient")
    two_phase, additive, gradient = (np.array(means[name][1]) for name in names)
    assert (two_phase > np.maximum(additive, gradient)).all()
    # They change places: short steps at small gradients, and no entry above 1 - 1/e.
    assert additive[0] > gradient[0]
    assert additive[1] < gradient[1]
    ratio = debates.mean_over_tasks(rows, lambda row: row.rounded - row.greedy)["two-phase-frank-wolfe"][1]
    assert ratio[1] > 0.05
    for row in rows:
        assert max(row.rounded, row.greedy) <= row.upper_bound or np.isinf(row.upper_bound)
    assert "mean over 6 pairs" in debates.format_summary(rows)


@pytest.mark.usefixtures("frequent_words")
def test_the_command_writes_a_table_and_files(tmp_path, capsys, statements):
    data, out = tmp_path / "s.jsonl", tmp_path / "out"
    data.write_text("\n".join(json.dumps(s._asdict()) for s in statements), encoding="utf-8")
    argv = ["paper", "--families", "debates", "--quick", "--data", str(data), "--out", str(out), "--jobs", "2"]
    assert main(argv) == 0
    assert "mean over 3 pairs" in capsys.readouterr().out
    lines = (out / "debates.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",".join(SummaryRow._fields)
    assert len(lines) == 1 + 3 * 3 * len(PAPER_METHODS)
    assert (out / "debates.png").stat().st_size > 0
    assert (out / "debates.pdf").stat().st_size > 0


def test_figures_show_all_methods(tmp_path):
    pytest.importorskip("matplotlib")
    from drsub_fast.experiments.debates_figures import draw_summaries
    from drsub_fast.experiments.digits import draw_choices

    methods = PAPER_METHODS
    means = {method: ([0.1, 0.2], [1.0, 2.0], [0.1, 0.3]) for method in methods}
    figure = draw_summaries(means, means, 1, {method: np.arange(3.0) for method in methods}, "title")
    assert [len(axis.containers) for axis in figure.axes] == [3, 0, 3]
    assert len(figure.axes[1].lines) == 3
    figure.savefig(tmp_path / "figure.png")
    items = digits.DigitItems(np.zeros((4, 8, 8)), np.array([1, 0, 1, 0]), np.ones(4), None)
    choices = [
        digits.Choice("2", name, ds.MapSolution(np.array(chosen), 0.0, 0.0, 0.0, 0.0, name))
        for name, chosen in (("a", [0, 1]), ("b", [0]))
    ]
    figure = draw_choices(items, choices)
    assert [len(axis.images) for axis in figure.axes] == [1, 1, 1, 0]
    figure.savefig(tmp_path / "figure.png")


def test_digits_are_recommended():
    items = digits.digit_items()
    assert items.objective.factor.shape == (1797, 64)
    np.testing.assert_allclose(items.objective.L.diagonal(), np.exp(4.0 * items.confidence), rtol=1e-9)
    constraints = digits.digit_constraints(items)
    choices = list(digits.choose(items, constraints, {"greedy": digits.CHOICES["greedy"]}))
    free, balanced = (choice.solution for choice in choices)
    assert free.items.size == balanced.items.size == 20
    assert (np.bincount(items.labels[balanced.items]) == 2).all()
    assert balanced.value < free.value < balanced.bound < free.bound
    assert "20 images" in digits.format_choices(choices)
    with pytest.raises(ValueError, match="k = 15 cannot be shared out"):
        digits.digit_constraints(items, 15)
