"""``integrations.pycocotools.COCOeval`` has every bit of pycocotools' own, whatever the input."""

from __future__ import annotations

import numpy as np
from helpers.coco_pairs import random_pair, run_evaluation, same_evaluations

from torch_vocmetrics.integrations.pycocotools import OFFICIAL, COCOeval

from .campaign import Campaign


def case(seed: int) -> str:
    """One evaluation by both; of one in eight the tables of each image too."""
    pair = random_pair(seed)
    wanted, lines = run_evaluation(OFFICIAL, pair)
    found, printed = run_evaluation(COCOeval, pair)
    different = same_evaluations(found, wanted)
    assert not different, f"different: {', '.join(different)}"
    assert printed == lines, "the printed lines differ"
    assert found.params.imgIds == wanted.params.imgIds
    assert found.params.maxDets == wanted.params.maxDets
    assert list(found.eval["params"].catIds) == list(wanted.eval["params"].catIds)
    by_official = found._metric is None
    if seed % 8 == 0:
        np.testing.assert_equal(found.ious, wanted.ious)
        np.testing.assert_equal(list(found.evalImgs), list(wanted.evalImgs))
    if by_official:
        return f"by pycocotools itself{': ' * bool(pair.strange)}{pair.strange}"
    categories = "categories" if found.params.useCats else "no categories"
    return f"{pair.iou_type}, {categories}{', own parameters' * bool(pair.params)}"


CAMPAIGN = Campaign("dropin", "evaluations that differ from pycocotools' COCOeval", case, 300)
