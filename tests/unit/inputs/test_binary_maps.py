"""Semantic segmentation of two classes whose predictions have one channel."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torch_vocmetrics import InputError, MeanIoU

NAMES = ["background", "cat"]
RNG = torch.Generator().manual_seed(1)
LOGITS = torch.randn(3, 5, 7, generator=RNG)
TRUTH = torch.randint(0, 2, (3, 5, 7), generator=RNG)
TRUTH[0, 0] = 255


def by_hand(predicted: torch.Tensor) -> list[float]:
    """Intersection over union of either class, pixel by pixel."""
    found = []
    for label in (0, 1):
        inside = [
            (int(p) == label, int(t) == label)
            for p, t in zip(predicted.flatten(), TRUTH.flatten(), strict=True)
            if int(t) != 255
        ]
        found.append(sum(p and t for p, t in inside) / sum(p or t for p, t in inside))
    return found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("threshold", [0.0, 0.5, -1, 0.25])
@pytest.mark.parametrize("form", ["maps", "channel", "list", "list of channels", "target channel"])
def test_what_exceeds_the_threshold_is_the_second_class(
    dtype: torch.dtype, threshold: float, form: str
) -> None:
    logits, truth = LOGITS.to(dtype), TRUTH
    logits[1, 1, :] = threshold  # exactly there is the first class
    forms: dict[str, Any] = {
        "maps": (logits, truth),
        "channel": (logits.unsqueeze(1), truth),
        "list": (list(logits), list(truth)),
        "list of channels": (list(logits.unsqueeze(1)), truth),
        "target channel": (logits.unsqueeze(1), truth.unsqueeze(1)),
    }
    metric = MeanIoU("voc2012", class_names=NAMES, binary_threshold=threshold)
    result = metric.update(*forms[form]).compute()
    assert result.iou.tolist() == by_hand(logits.double() > threshold)


def test_other_forms_are_as_without_a_threshold() -> None:
    both = torch.stack([-LOGITS, LOGITS], 1)
    for given in (both, (LOGITS > 0).long(), (LOGITS > 0).to(torch.uint8)):
        wanted = MeanIoU("voc2012", class_names=NAMES).update(given, TRUTH).compute()
        metric = MeanIoU("voc2012", class_names=NAMES, binary_threshold=9.0)
        assert metric.update(given, TRUTH).compute().to_dict() == wanted.to_dict()


def test_no_threshold_is_guessed() -> None:
    metric = MeanIoU("voc2012", class_names=NAMES)
    with pytest.raises(InputError, match=r"needs a threshold, .*=0.0 for logits, or 0.5 for prob"):
        metric.update(LOGITS, TRUTH)
    with pytest.raises(InputError, match="must have a channel for each of the 3 classes"):
        MeanIoU("voc2012", num_classes=3).update(LOGITS.unsqueeze(1), TRUTH)


def test_nan_is_named() -> None:
    logits = LOGITS.clone()
    logits[2, 0, 0] = torch.nan
    metric = MeanIoU("voc2012", class_names=NAMES, binary_threshold=0.0)
    with pytest.raises(InputError, match="prediction 2: a logit is NaN"):
        metric.update(logits, TRUTH)
    assert metric.num_images == 0


@pytest.mark.parametrize("value", [torch.nan, torch.inf, "0", True, [0.0]])
def test_wrong_thresholds(value: Any) -> None:
    with pytest.raises(InputError, match="binary_threshold: must be a finite number, for two"):
        MeanIoU("voc2012", class_names=NAMES, binary_threshold=value)


def test_a_threshold_needs_two_classes() -> None:
    with pytest.raises(InputError, match=r"got 0.5 for 21 classes"):
        MeanIoU("voc2012", binary_threshold=0.5)
