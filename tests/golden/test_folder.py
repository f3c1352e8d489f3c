"""The folder of handed material is there, so that no test passes for want of cases."""

from __future__ import annotations

from helpers.support import shared_file


def test_there_are_fixtures_or_cases() -> None:
    found = [*shared_file("fixtures").glob("*.json"), *shared_file("cases").glob("*.jsonl")]
    assert found, f"{shared_file()} holds neither fixtures nor cases: see VOCMETRICS_SHARED"
