"""Fixtures shared by the tests."""

import os
import signal
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType

# Before the package is imported: tests run compiled, whatever it costs, unless the environment says otherwise.
os.environ.setdefault("DRSUB_FAST_COMPILE", "now")

import pytest

#: What the environment asks for: "now", unless it says otherwise.
WANTED = os.environ["DRSUB_FAST_COMPILE"]

# A job that a shell runs in the background ignores Ctrl-C, and so would the processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: What starts processes: modules, and names of classes.
PROCESSES = ("subprocess", "multiprocessing", "ProcessPoolExecutor", "LocalCluster")

#: How kernels run in the tests of a folder; elsewhere they are plain Python, which takes less time than compiling every
#: pair of a function and a set for every method (`tests/solvers/test_pairs.py`). A test that compares digits may not
#: begin in one way and end in the other: "auto" is for what is chosen, drawn, proved or read.
MODES = dict.fromkeys(("engine", "lp", "objectives", "sets"), "now") | dict.fromkeys(
    ("discrete", "experiments", "problems", "proofs", "reference"), "auto"
)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_configure(config):
    """Who leaves out what starts slowly is at work: nothing is compiled then."""
    if "not slow_start" in config.option.markexpr:
        os.environ["DRSUB_FAST_COMPILE"] = "never"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks tests that start processes, the judge, and what takes hours anyway as `slow_start`."""
    for item in items:
        function = getattr(item, "function", None)
        fixtures = getattr(item, "_fixtureinfo", None)
        known = [] if fixtures is None else [each[-1].func for each in fixtures.name2fixturedefs.values()]
        marked = item.get_closest_marker("slow") is not None or item.path.parent.name == "judge"
        if marked or any(_starts_processes(called, set()) for called in (function, *known)):
            item.add_marker("slow_start")


def _starts_processes(value, seen):
    """Whether a function of the tests, or one that it calls, names what starts processes."""
    if isinstance(value, (ModuleType, type)):
        return value.__name__ in PROCESSES
    value = getattr(value, "__wrapped__", value)
    if not isinstance(value, FunctionType) or value in seen or "tests" not in Path(value.__code__.co_filename).parts:
        return False
    seen.add(value)
    return any(_starts_processes(value.__globals__.get(name), seen) for name in value.__code__.co_names)


@pytest.fixture(scope="session")
def shared_data():
    """Folder with the authors' values, the debates and the fitted models; skips where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"needs the data folder {DATA.name} beside the checkout ({DATA} is absent)")
    return DATA


@contextmanager
def _mode(mode):
    """Kernels run so in this process and in those that it starts, whatever a test does with its own monkeypatch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drsub_fast.engine.jit.COMPILE", mode)
        patch.setenv("DRSUB_FAST_COMPILE", mode)
        yield


@pytest.fixture(autouse=True, scope="module")
def _mode_of_folder(request):
    if WANTED != "now":
        yield
        return
    with _mode(MODES.get(request.path.parent.name, "never")):
        yield


@pytest.fixture
def compiled(_mode_of_folder):
    """Kernels are compiled at their first call; skips where nothing is to be compiled."""
    if WANTED == "never":
        pytest.skip("kernels are not compiled")
    with _mode("now"):
        yield


@pytest.fixture
def interpreted(_mode_of_folder):
    """Kernels run as plain Python, for many small problems of many kinds, which would take longer to compile."""
    with _mode("never"):
        yield
