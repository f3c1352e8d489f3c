"""What analyses take, and tables as dicts and data frames."""

from __future__ import annotations

import pkgutil
import sys
from dataclasses import dataclass

import pytest
import torch

from torch_vocmetrics import DetectionAP, InputError, StateError, analysis
from torch_vocmetrics.analysis import records_of
from torch_vocmetrics.analysis.source import diagnostics_of
from torch_vocmetrics.results import Table


@dataclass(frozen=True)
class Scores(Table):
    """Two columns and a number."""

    name: tuple[str, ...]
    score: torch.Tensor
    mean: float


def test_records_are_taken_as_they_are_or_from_a_metric() -> None:
    nothing = {"boxes": [], "labels": []}
    metric = DetectionAP("coco2017", num_classes=2).update([nothing | {"scores": []}], [nothing])
    records = metric.records()
    assert records_of(records) is records
    assert records_of(metric).protocol == records.protocol
    with pytest.raises(InputError, match="must be a detection metric or its records, got str"):
        records_of("coco2017")
    with pytest.raises(StateError, match=r"kinds needs the best overlaps.*diagnostics=True"):
        diagnostics_of(records, "kinds")
    with pytest.raises(InputError, match="protocol: must be one of coco2017, voc2007"):
        records_of(DetectionAP(["coco2017", "voc2007"], num_classes=2))


def test_a_table_is_a_dict_and_a_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Scores(("cat", "dog"), torch.tensor([0.5, 1.0]), 0.75)
    assert table.to_dict() == {"name": ["cat", "dog"], "score": [0.5, 1.0], "mean": 0.75}
    frame = table.to_pandas()
    assert list(frame.columns) == ["name", "score"]
    assert frame["score"].tolist() == [0.5, 1.0]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"torch_vocmetrics\[pandas\]"):
        table.to_pandas()


def test_no_public_name_is_that_of_a_module() -> None:
    """Else the module would hide the function once another module has imported it."""
    modules = {module.name for module in pkgutil.iter_modules(analysis.__path__)}
    own = set(analysis.__all__) - {"bootstrap", "image_statistics"}
    assert not own & modules
    for name in own:
        assert callable(getattr(analysis, name))
