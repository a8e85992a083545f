"""Fixtures shared by the tests."""

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data():
    """Folder with the authors' values, the debates and the fitted models; skips where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"needs the data folder {DATA.name} beside the checkout ({DATA} is absent)")
    return DATA
