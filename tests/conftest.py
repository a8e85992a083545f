"""Fixtures shared by the tests."""

import os
import signal
from pathlib import Path

# Before the package is imported: tests run compiled, whatever it costs, unless the environment says otherwise.
os.environ.setdefault("DRSUB_FAST_COMPILE", "now")

import pytest

# A job that a shell runs in the background ignores Ctrl-C, and so would the processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: Tests of what is proved, drawn, chosen or read: kernels are compiled where that pays, as for users.
AS_FOR_USERS = ("discrete", "experiments", "problems", "proofs", "reference")

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data():
    """Folder with the authors' values, the debates and the fitted models; skips where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"needs the data folder {DATA.name} beside the checkout ({DATA} is absent)")
    return DATA


@pytest.fixture(autouse=True)
def _compiled_where_it_pays(request, monkeypatch):
    if request.path.parent.name in AS_FOR_USERS:
        monkeypatch.setattr("drsub_fast.engine.jit.COMPILE", "auto")


@pytest.fixture
def interpreted(monkeypatch):
    """Kernels run as plain Python, for many small problems of many kinds, which would take longer to compile."""
    monkeypatch.setattr("drsub_fast.engine.jit.COMPILE", "never")
