"""Examples in docstrings write their files into a folder of their own, as a reader would."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _examples_in_a_folder_of_their_own(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
