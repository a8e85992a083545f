"""These tests are about what is proved, drawn or chosen: kernels are compiled where that pays, as for users."""

import pytest


@pytest.fixture(autouse=True)
def _compiled_where_it_pays(monkeypatch):
    monkeypatch.setattr("drsub_fast.engine.jit.COMPILE", "auto")
