"""A few cases of every campaign, and the frame that runs them."""

from __future__ import annotations

from collections import Counter

import pytest

from fuzz import campaign as frame
from fuzz.__main__ import summary
from fuzz.campaign import Campaign, campaigns, run

CAMPAIGNS = campaigns()


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_few_cases(name: str) -> None:
    report = run(CAMPAIGNS[name], cases=CAMPAIGNS[name].quick)
    assert not report.findings, "\n".join(report.findings.values())
    assert report.cases == CAMPAIGNS[name].quick
    assert sum(report.counts.values()) >= report.cases


def failing(seed: int) -> str:
    assert seed % 2, "even"
    return "odd"


def test_findings_are_kept_with_their_seed() -> None:
    report = run(Campaign("failing", "even seeds", failing), first=10, cases=5)
    assert report.counts == {"odd": 2}
    assert list(report.findings) == [10, 12, 14]
    assert "AssertionError: even" in report.findings[10]


def test_problems_of_a_case_are_counted() -> None:
    def several(seed: int) -> Counter[str]:
        assert seed != 2
        return Counter({"small": 10, "large": seed})

    lines = []
    campaign = Campaign("several", "nothing", several)
    report = run(campaign, cases=4, after_case=lambda report: lines.append(summary(report)))
    assert report.counts == {"small": 30, "large": 4}
    assert [line.partition(" in ")[0] for line in lines] == [
        "1 cases, 10 problems", "2 cases, 21 problems", "3 cases, 21 problems",
        "4 cases, 34 problems",
    ]  # fmt: skip
    assert lines[-1].endswith(" s, 1 findings")


def test_a_campaign_ends_in_time_and_after_some_findings() -> None:
    campaign = Campaign("failing", "even seeds", failing)
    assert len(run(campaign, most_findings=3).findings) == 3
    assert run(campaign, seconds=0.0).counts == {}


def test_a_case_that_hangs_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(seed: int) -> str:
        while True:
            pass

    monkeypatch.setattr(frame, "CASE_SECONDS", 1)
    report = run(Campaign("hanging", "endless loops", hang), cases=1)
    assert "longer than 1 s" in report.findings[0]
