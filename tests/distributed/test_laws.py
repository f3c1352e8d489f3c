"""Every law of :mod:`torch_vocmetrics.testing` over every metric, in one process."""

from __future__ import annotations

import pytest
from distributed.registry import SUBJECTS, images

from torch_vocmetrics.testing import LAWS, MetricTester, rebatched


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no_ids"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_law(name: str, ids: bool, law: str) -> None:
    subject = SUBJECTS[name]
    batches = rebatched(images(subject, 14, ids=ids), 3)
    MetricTester(subject.new, batches, laws=[law]).check()
