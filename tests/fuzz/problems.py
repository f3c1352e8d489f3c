"""Fast path = reference = pycocotools on random problems of every metric, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers import oracle
from helpers.challenges import unequal
from helpers.generator import random_coco_protocol, random_problem, random_protocol
from helpers.mask_problems import judge_masks, mask_problem
from helpers.pedestrians import evaluate_by_metric as miss_rates
from helpers.pedestrians import evaluate_by_reference as plain_miss_rates
from helpers.support import Problem, differences, evaluate_by_metric
from properties import test_classification_properties as classification
from properties import test_layout_properties as layout
from properties import test_miss_rate_properties as pedestrians
from properties import test_segmentation_properties as segmentation

from torch_vocmetrics import ClassificationAP, DetectionAP, LayoutAP, MeanIoU, reference
from torch_vocmetrics.protocols import DetectionProtocol, load_protocol, protocol_names

from .campaign import Campaign
from .portions import random_portions


def _choice(seed: int, names: list[str]) -> str:
    return names[int(np.random.default_rng([seed, 31]).integers(len(names)))]


def _detection(seed: int, protocol: DetectionProtocol, box_format: str | None = None) -> None:
    problem = random_problem(seed, protocol, box_format)
    fast = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
    plain = reference.evaluate(protocol, *problem[:2], **problem.kwargs)
    _equal(differences(fast, plain))
    _equal(differences(_image_by_image(protocol, problem), plain))
    if box_format == "xywh":
        _as_judged(fast, oracle.judge_problem(protocol, problem))


def _image_by_image(protocol: DetectionProtocol, problem: Problem) -> Any:
    metric = DetectionAP(protocol, **problem.kwargs)
    for image in range(len(problem.detections)):
        metric.update(*(side[image : image + 1] for side in problem[:2]))
        result = metric.compute()
    return result


def _as_judged(result: Any, judged: dict[str, np.ndarray]) -> None:
    for array, wanted in judged.items():
        assert np.array_equal(getattr(result, array).numpy(), wanted, equal_nan=True), array


def _equal(found: list[str]) -> None:
    assert not found, f"different: {', '.join(found)}"


def shipped_rules(seed: int) -> None:
    name = _choice(seed, ["voc2006", "voc2007", "voc2010", "coco2017"])
    _detection(seed, load_protocol(f"detection/{name}"))


def any_rules(seed: int) -> None:
    _detection(seed, random_protocol(seed))


def coco(seed: int) -> None:
    protocol = load_protocol("detection/coco2017") if seed % 2 else random_coco_protocol(seed)
    _detection(seed, protocol, "xywh")


def masks(seed: int) -> None:
    name = _choice(seed, ["coco2017_segm", "coco2017_segm_box_area"])
    protocol, problem = load_protocol(f"detection/{name}"), mask_problem(seed)
    fast = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
    _equal(differences(fast, reference.evaluate(protocol, *problem[:2], **problem.kwargs)))
    _as_judged(fast, judge_masks(protocol, problem))


def miss_rate(seed: int) -> None:
    protocol = pedestrians.RULES[_choice(seed, list(pedestrians.RULES))](seed)
    problem = pedestrians.random_problem(seed, protocol)
    sides = (protocol, *problem[:2])
    fast, plain = miss_rates(*sides, **problem.kwargs), plain_miss_rates(*sides, **problem.kwargs)
    _equal(pedestrians.differences(fast, plain))


def label_maps(seed: int) -> None:
    protocol = load_protocol(f"segmentation/{_choice(seed, list(protocol_names('segmentation')))}")
    found, true, kwargs = segmentation.random_maps(seed, protocol)
    fast = MeanIoU(protocol, **kwargs).update(found, true).compute()
    lists = ([one.tolist() for one in side] for side in (found, true))
    _equal(differences(fast, reference.evaluate_segmentation(protocol, *lists, **kwargs)))


def scores(seed: int) -> None:
    name, (values, targets, ids) = (
        _choice(seed, classification.PROTOCOLS),
        classification.problem(seed),
    )
    image_ids = ids if seed % 7 else None
    metric = ClassificationAP(name, num_classes=values.shape[1], target_format="signed")
    fast = metric.update(values, targets, image_ids).compute()
    plain = reference.evaluate_classification(name, values, targets, image_ids=image_ids)
    _equal(unequal(fast, plain))


def layouts(seed: int) -> None:
    rules = load_protocol(f"layout/{_choice(seed, list(layout.PROTOCOLS))}")
    inputs = layout.problem(seed, rules)
    fast = LayoutAP(rules).update(*inputs).compute()
    _equal(unequal(fast, reference.evaluate_layout(rules, *inputs)))


KINDS: dict[str, Callable[[int], None]] = {
    "detection, shipped rules: metric = reference": shipped_rules,
    "detection, any rules: metric = reference": any_rules,
    "detection, COCO's rules: metric = reference = pycocotools": coco,
    "masks: metric = reference = pycocotools": masks,
    "miss rates: metric = reference": miss_rate,
    "segmentation: metric = reference": label_maps,
    "classification and actions: metric = reference": scores,
    "person layout: metric = reference": layouts,
}


def case(seed: int) -> str:
    """One problem; the kinds take turns. Pairs are made in portions of a random size."""
    kind = list(KINDS)[seed % len(KINDS)]
    rng = np.random.default_rng([seed, 32])
    with random_portions(rng):
        KINDS[kind](seed // len(KINDS))
    return kind


CAMPAIGN = Campaign("problems", "results that differ from those of a slower evaluator", case, 80)
