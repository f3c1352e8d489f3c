"""Rules that random problems reach rarely, each with the number that the official lines give.

The metric and :mod:`torch_vocmetrics.reference` are both asked, since they were written by the same
reader: an expected value here is derived from the quoted line and from nothing of this library.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from helpers.challenges import each_layouter
from helpers.pedestrians import each_evaluator, found, true
from helpers.support import each_evaluator as each_detector
from helpers.support import rows, same

from torch_vocmetrics import InputError, load_protocol
from torch_vocmetrics.io import bb_apply

pytestmark = pytest.mark.filterwarnings("ignore::torch_vocmetrics.VocMetricsWarning")

Evaluate = Callable[..., Any]
PERSON = [100.0, 100.0, 41.0, 100.0]
OTHER = [300.0, 100.0, 41.0, 100.0]
NOBODY = [500.0, 100.0, 41.0, 100.0]


def subset(result: Any, name: str) -> int:
    return result.subset_names.index(name)


# Caltech: dbEval.m, bbGt.m, bbApply.m ---------------------------------------------------------


def expand_150() -> tuple[list[Any], list[Any]]:
    height = 50 * (1 / 1.5)
    false = [500.0, 100.0, 0.41 * height, height, 0.9]
    return [found([false, [*PERSON, 0.8]])], [true([PERSON, OTHER], [0, 0])]


@each_evaluator
@pytest.mark.parametrize("name", ["caltech2012", "caltech2012_no_border"])
def test_least_height_is_a_product(name: str, evaluate: Evaluate) -> None:
    """``hr = exps(g).hr.*[1/exps(g).filter exps(g).filter]``, then ``bb(:,4)>=hr(1)``.

    50 * (1 / 1.5) is 33.33333333333333, so the false positive of that height stays. In one image it
    comes at 1 FPPI: recall is 0 at eight references and .5 at the last one.
    """
    result = evaluate(name, *expand_150(), box_format="xywh")
    at = subset(result, "Expand=150")
    assert 50 * (1 / 1.5) < 50 / 1.5
    assert float(result.log_average_miss_rate[at]) == 0.9258747122872905
    assert result.curves[at].scores.tolist() == [0.9, 0.8]


@each_evaluator
def test_least_height_before_the_older_curve(evaluate: Evaluate) -> None:
    """The filter of 3.2.1 with the curve of 3.0.0, which stops where the curve begins late."""
    result = evaluate("caltech2012_v300", *expand_150(), box_format="xywh")
    at = subset(result, "Expand=150")
    assert result.curves[at].fppi.tolist() == [1.0, 1.0]
    assert math.isnan(result.log_average_miss_rate[at])


@each_evaluator
def test_citypersons_divides(evaluate: Evaluate) -> None:
    """``d['height'] >= hRng[0] / self.params.expFilter``: with 1.5 the same box is removed."""
    base: Any = load_protocol("miss_rate/citypersons2017")
    one = base.subsets[0]._replace(filter_expansion=1.5)
    rules = dataclasses.replace(base, subsets=(one,))
    result = evaluate(rules, *expand_150(), box_format="xywh")
    assert result.curves[0].scores.tolist() == [0.8]


@each_evaluator
def test_no_object_in_the_older_curve(evaluate: Evaluate) -> None:
    """3.0.0 has ``tp=tp/max(eps,np)``: recall is 0 and not 0/0, which 3.2.1's compRoc makes it.

    One false positive in 100 images comes at .01 FPPI, which the lowest reference reaches.
    """
    detections = [found([[*NOBODY, 0.9]]), *[found([])] * 99]
    targets = [true([], [])] * 100
    older = evaluate("caltech2012_v300", detections, targets, box_format="xywh")
    assert older.headline == 1.0
    assert older.curves[0].recall.tolist() == [0.0]
    newer = evaluate("caltech2012", detections, targets, box_format="xywh")
    assert math.isnan(newer.headline)


def test_squarify_keeps_the_height_of_a_box_of_the_ratio() -> None:
    """bbApply.m: ``flag==1 && p(3)<p(4)*ar`` keeps the width, all else ``resize(p,1,0,ar)``.

    For h = 13 and ar = .41 the width is h * ar, so that nothing may change; by way of the width the
    height would become 13 * .41 / .41 = 13.000000000000002.
    """
    boxes = np.array([[0, 0, 13 * 0.41, 13], [0, 0, 2.0, 13], [0, 0, 9.0, 13]])
    assert bb_apply.squarify(boxes, 1, 0.41)[0].tolist() == [0, 0, 13 * 0.41, 13]
    assert bb_apply.squarify(boxes, 0, 0.41)[0].tolist() == [0, 0, 13 * 0.41, 13]
    # Shrinking keeps the width of the narrow box and the height of the wide one, growing not.
    assert bb_apply.squarify(boxes, 1, 0.41)[1:, [2, 3]].tolist()[0][0] == 2.0
    assert bb_apply.squarify(boxes, 1, 0.41)[2, 3] == 13
    assert bb_apply.squarify(boxes, 0, 0.41)[1, 3] == 13
    assert bb_apply.squarify(boxes, 0, 0.41)[2, 2] == 9


def test_boxes_that_touch_and_no_boxes() -> None:
    """bbApply.m intersect: ``empty=any(lcsE<lcsS,2)``; ``if(n1==0 || n2==0), bb=zeros(0,4)``."""
    first, none = np.array([[0.0, 0, 10, 10]]), np.zeros((0, 4))
    assert bb_apply.intersect(first, np.array([[10.0, 2, 5, 5]])).tolist() == [[10, 2, 0, 5]]
    assert bb_apply.intersect(first, np.array([[11.0, 2, 5, 5]])).tolist() == [[0, 0, 0, 0]]
    for action in (bb_apply.intersect, bb_apply.union):
        for pair in ((first, none), (none, first), (np.repeat(first, 3, 0), none), (none, none)):
            assert action(*pair).shape == (0, 4)


# KAIST: evaluation_script.py ------------------------------------------------------------------


@each_evaluator
def test_kaist_permutes_overlaps_twice(evaluate: Evaluate) -> None:
    """``ious = self.ious[imgId, catId][dtind, :]``, of rows that computeIoU has sorted by score.

    A (score .1, on the person), B (.9) and C (.5) in file order give dtind = [1, 2, 0]: ranks 0, 1
    and 2 (B, C, A) take rows 1, 2 and 0 of the sorted overlaps, which are those of C, A and B. So
    it is C that finds the person, at .01 FPPI of 100 images. Of two persons one stays missing.
    """
    lines = [[*PERSON, 0.1], [*NOBODY, 0.9], [*NOBODY, 0.5]]
    empty, nobody = [found([])] * 99, [true([], [], occlusion=torch.zeros(0).long())] * 99
    there = true([PERSON, OTHER], [0, 0], occlusion=torch.zeros(2).long())
    result = evaluate("kaist_python", [found(lines), *empty], [there, *nobody], box_format="xywh")
    assert result.curves[0].scores.tolist() == [0.9, 0.5, 0.1]
    assert result.curves[0].fppi.tolist() == [0.01, 0.01, 0.02]
    assert result.curves[0].recall.tolist() == [0.0, 0.5, 0.5]
    assert result.headline == 0.5
    # `order` names the line of the file, whatever the order of the rows.
    turned = found([lines[n] for n in (2, 0, 1)]) | {"order": torch.tensor([2, 0, 1])}
    for image in empty:
        image["order"] = torch.zeros(0, dtype=torch.int64)
    again = evaluate("kaist_python", [turned, *empty], [there, *nobody], box_format="xywh")
    assert again.curves[0].recall.tolist() == [0.0, 0.5, 0.5]
    # Files that are sorted by score, and the other protocol, know no second permutation.
    ranked = found([lines[n] for n in (1, 2, 0)])
    for name in ("kaist", "kaist_python"):
        plain = evaluate(name, [ranked, *[found([])] * 99], [there, *nobody], box_format="xywh")
        assert plain.curves[0].recall.tolist() == [0.0, 0.0, 0.5]


@each_evaluator
def test_kaist_python_drops_objects_of_images_without_detections(evaluate: Evaluate) -> None:
    """``if len(dt) == 0: return None``, left out of ``E``; ``fppi = np.array(fp)/I0`` of all."""
    levels = torch.zeros(1, dtype=torch.int64)
    targets = [true([PERSON], [0], occlusion=levels)] * 2
    detections = [found([]), found([[*NOBODY, 0.9], [*PERSON, 0.8]])]
    script = evaluate("kaist_python", detections, targets, box_format="xywh")
    assert script.num_positives[0] == 1
    assert script.curves[0].fppi.tolist() == [0.5, 0.5]
    assert script.curves[0].recall.tolist() == [0.0, 1.0]
    every = evaluate("kaist", detections, targets, box_format="xywh")
    assert every.curves[0].recall.tolist() == [0.0, 0.5]


@each_evaluator
def test_limit_of_detections_comes_before_the_filter(evaluate: Evaluate) -> None:
    """CityPersons: ``dt[i] for i in dtind[0:maxDet]`` (1000), then the range of heights."""
    low = [[400.0, 10.0, 4.1, 10.0, 0.9]]
    for count, recall in ((999, [1.0]), (1000, [])):
        rows_ = [*(low * count), [*PERSON, 0.5]]
        result = evaluate(
            "citypersons2017", [found(rows_)], [true([PERSON], [0])], box_format="xywh"
        )
        assert result.curves[0].recall.tolist() == recall
        assert result.headline == (0.0 if recall else 1.0)


# CrowdHuman: image.py, database.py ------------------------------------------------------------


@each_evaluator
def test_crowdhuman_clips_boxes(evaluate: Evaluate) -> None:
    """``x1 = min(max(x1, 0), width - 1)``, ``x2 = max(min(x2, width), 0)``, of both sides.

    In an image of 100 x 100: [-10, 0, 20, 100] becomes the left 10 columns, which the detection has
    too (unclipped the IoU would be 1/2 and fail); [99.5, 0, 10, 100] begins at 99 and is 1 wide (at
    99.5 the IoU would be 1/2).
    """
    there = true([[-10.0, 0, 20, 100], [99.5, 0, 10, 100]], [0, 0], image_size=(100, 100))
    detections = [found([[0.0, 0, 10, 100, 0.9], [99.0, 0, 1, 100, 0.8]])]
    result = evaluate("crowdhuman2018", detections, [there], box_format="xywh")
    assert result.true_positives.tolist() == [2, 2]
    # Points (.5, 1) and (1, 1): one trapezoid of width .5.
    assert result.to_dict()["AP"] == 0.5
    turned = true([[0.0, -10, 100, 20], [0, 99.5, 100, 10]], [0, 0], image_size=(100, 100))
    detections = [found([[0.0, 0, 100, 10, 0.9], [0, 99.0, 100, 1, 0.8]])]
    result = evaluate("crowdhuman2018", detections, [turned], box_format="xywh")
    assert result.true_positives.tolist() == [2, 2]
    # Detections are clipped as well.
    whole = true([[0.0, 0, 10, 100]], [0], image_size=(100, 100))
    beyond = [found([[-10.0, 0, 20, 100, 0.9]])]
    result = evaluate("crowdhuman2018", beyond, [whole], box_format="xywh")
    assert result.true_positives.tolist() == [1, 1]


@each_evaluator
def test_crowdhuman_without_a_detection_that_counts(evaluate: Evaluate) -> None:
    """``_find_gt`` gives -1 on an empty list, nothing is appended: the mean of nothing is NaN.

    One detection lies in an ignored box, so that it leaves the list of scores.
    """
    there = true([[50.0, 50, 10, 10], [0, 0, 40, 40]], [0, 1], image_size=(100, 100))
    for detections in ([found([])], [found([[10.0, 10, 10, 10, 0.9]])]):
        result = evaluate("crowdhuman2018", detections, [there], box_format="xywh")
        assert same(result.log_average_miss_rate, [math.nan, math.nan])
        assert result.to_dict()["AP"] == 0.0
        assert math.isnan(result.miss_rate_at(0.1))


# Scores and the order of the file -------------------------------------------------------------


@each_detector
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        # Precision 0, 1/2, 2/3 at recall 0, 1/2, 1; made monotone from the right: 2/3.
        ("voc2012", 0.5 * (2 / 3) + 0.5 * (2 / 3)),
        ("voc2006", sum([(2 / 3) / 11] * 11)),
        # All 101 levels read 2 / (3 + eps).
        ("coco2017", 2 / (3 + np.spacing(1))),
    ],
)
def test_infinite_scores_are_ranked_as_floats(name: str, wanted: float, evaluate: Evaluate) -> None:
    """``sort(-confidence)``; ``np.argsort([-d['score'] for d in dt], kind='mergesort')``."""
    boxes = [[10.0, 10, 40, 40], [110, 10, 140, 40], [210, 10, 240, 40]]
    for scores in ((-math.inf, 0.9, math.inf), (0.0, 0.9, math.inf), (-math.inf, 0.9, 1.0)):
        detection = rows(boxes=boxes, scores=list(scores), labels=[0, 0, 0])
        target = rows(boxes=boxes[:2], labels=[0, 0])
        result = evaluate(name, [detection], [target], num_classes=1)
        assert same(float(result.average_precision[0].max()), wanted, 1e-16)
    detection = rows(boxes=boxes, scores=[0.1, math.nan, 0.2], labels=[0, 0, 0])
    with pytest.raises(InputError, match="NaN"):
        evaluate(name, [detection], [target], num_classes=1)


@each_evaluator
@pytest.mark.parametrize("name", ["caltech2012", "citypersons2017", "caltech_acftest"])
def test_infinite_scores_of_pedestrians(name: str, evaluate: Evaluate) -> None:
    """``sort(score,'descend')``, ``np.argsort(-dtScores)``: infinities are the ends."""
    detection = found([[*PERSON, -math.inf], [*NOBODY, math.inf], [*OTHER, 0.5]])
    result = evaluate(name, [detection], [true([PERSON, OTHER], [0, 0])], box_format="xywh")
    assert result.curves[0].scores.tolist() == [math.inf, 0.5, -math.inf]
    assert result.curves[0].recall.tolist() == [0.0, 0.5, 1.0]


@each_detector
@pytest.mark.parametrize("year", ["voc2006", "voc2007", "voc2012"])
def test_ties_fall_by_the_line_of_the_file(year: str, evaluate: Evaluate) -> None:
    """``[sc,si]=sort(-confidence)`` is stable over the rows of the file, whatever their images.

    The false positive of image "b" stands on line 0, the true positive of image "a" on line 1.
    """
    box = [10.0, 10, 40, 40]
    hit = rows(boxes=[box], scores=[0.5], labels=[0], order=[1])
    miss = rows(boxes=[box], scores=[0.5], labels=[0], order=[0])
    targets = [
        rows(boxes=[box], labels=[0]) | {"image_id": "a"},
        rows(boxes=[], labels=[]) | {"image_id": "b"},
    ]
    for pair in ((hit, miss), (miss, hit)):
        images = targets if pair[0] is hit else targets[::-1]
        result = evaluate(year, list(pair), images, num_classes=1)
        assert result.curves[0][0].precision.tolist() == [0.0, 0.5]


# Layout: VOCevallayout.m, VOCevallayout_pr.m --------------------------------------------------

HEAD, HAND, FOOT = range(3)
Part = tuple[int, list[float]]


def owner(parts: Sequence[Part], **more: list[Any]) -> dict[str, Any]:
    """One person or layout with its parts."""
    return {
        "part_boxes": torch.tensor([box for _, box in parts], dtype=torch.float64).reshape(-1, 4),
        "part_labels": torch.tensor([label for label, _ in parts], dtype=torch.int64),
        "part_counts": torch.tensor([len(parts)]),
    } | {key: torch.tensor(value) for key, value in more.items()}


def joined(*owners: dict[str, Any]) -> dict[str, Any]:
    """Several persons or layouts of one image."""
    return {key: torch.cat([one[key] for one in owners]) for key in owners[0]}


TWO: list[Part] = [(HEAD, [1.0, 1, 20, 20]), (HAND, [51.0, 1, 70, 20])]
WRONG: list[Part] = [(HEAD, [1.0, 1, 20, 20]), (HAND, [151.0, 1, 170, 20])]
BODY = [1.0, 1, 100, 100]
PERFECT = sum([1 / 11] * 11)


def detected(parts: Sequence[Part], *, score: float | None = None) -> dict[str, Any]:
    more: dict[str, list[Any]] = {} if score is None else {"scores": [score]}
    return owner(parts, boxes=[BODY], **more)


def given(parts: Sequence[Part], index: int, *, score: float | None = None) -> dict[str, Any]:
    more: dict[str, list[Any]] = {} if score is None else {"scores": [score]}
    return owner(parts, object_index=[index], **more)


@each_layouter
def test_parts_need_no_assignment(evaluate: Evaluate) -> None:
    """``all(any(M(:,v))) && sum(any(M(:,v),2))>=sum(v)``: columns and rows are looked at apart.

    Of three hands D1 meets G1 and G2, D2 and D3 meet G3: every column and every row has a match,
    though no assignment of three to three exists. Moved away from G3, D3 leaves a row empty.
    """
    true_hands: list[Part] = [
        (HAND, [1.0, 1, 10, 10]), (HAND, [1.0, 1, 10, 12]), (HAND, [51.0, 51, 60, 60])
    ]  # fmt: skip
    hands: list[Part] = [
        (HAND, [1.0, 1, 10, 11]), (HAND, [51.0, 51, 60, 60]), (HAND, [51.0, 51, 60, 62])
    ]  # fmt: skip
    for name in ("voc2007", "voc2008"):
        make = detected if name == "voc2007" else partial(given, index=1)
        right = evaluate(name, [make(hands, score=0.5)], [make(true_hands)])
        assert right.headline == PERFECT
        away = [*hands[:2], (HAND, [201.0, 51, 210, 60])]
        assert evaluate(name, [make(away, score=0.5)], [make(true_hands)]).headline == 0
        # A true hand without a match, while every detected one has one.
        other = [hands[1], hands[1], hands[2]]
        assert evaluate(name, [make(other, score=0.5)], [make(true_hands)]).headline == 0
        # As many parts, but not as many of each type.
        types: list[Part] = [*hands[:2], (FOOT, hands[2][1])]
        assert evaluate(name, [make(types, score=0.5)], [make(true_hands)]).headline == 0


@each_layouter
def test_a_single_part_is_never_right(evaluate: Evaluate) -> None:
    """``any()`` of a 1 x 0 matrix is false, ``all(false)`` too: an absent type fails a layout."""
    one: list[Part] = [TWO[0]]
    assert evaluate("voc2007", [detected(one, score=0.5)], [detected(one)]).headline == 0
    assert evaluate("voc2008", [given(one, 1, score=0.5)], [given(one, 1)]).headline == 0
    parts = evaluate("voc2010", [given(one, 1, score=0.5)], [given(one, 1)])
    assert parts.to_dict()["AP/head"] == 1


@each_layouter
def test_who_uses_up_a_person(evaluate: Evaluate) -> None:
    """2007: ``detected=true`` before the parts are compared; 2008: ``if tp(di), det(oi)=1``."""
    wrong_first = joined(detected(WRONG, score=0.9), detected(TWO, score=0.8))
    result = evaluate("voc2007", [wrong_first], [detected(TWO)])
    assert result.curves[0].precision.tolist() == [0, 0]
    attempts = joined(*(given(p, 1, score=s) for p, s in ((WRONG, 0.9), (TWO, 0.8), (TWO, 0.7))))
    result = evaluate("voc2008", [attempts], [given(TWO, 1)])
    assert result.curves[0].precision.tolist() == [0, 1 / 2, 1 / 3]
    # From 2010 on only the first layout of a person is looked at.
    result = evaluate("voc2010", [attempts], [given(TWO, 1)])
    assert result.to_dict()["AP/hand"] == 0
    assert result.to_dict()["AP/head"] == 1


@each_layouter
def test_difficult_persons_of_2007(evaluate: Evaluate) -> None:
    """``npos`` leaves difficult persons out, the loop does not: recall goes to 2."""
    away = [(label, [x1 + 300, y1, x2 + 300, y2]) for label, (x1, y1, x2, y2) in TWO]
    second = [301.0, 1, 400, 100]
    layouts = joined(
        owner(TWO, boxes=[BODY], scores=[0.9]), owner(away, boxes=[second], scores=[0.8])
    )
    persons = joined(
        owner(TWO, boxes=[BODY], difficult=[True]), owner(away, boxes=[second], difficult=[False])
    )
    result = evaluate("voc2007", [layouts], [persons])
    assert result.curves[0].recall.tolist() == [1, 2]
    assert result.num_positives.tolist() == [1]


@each_layouter
def test_order_of_2008_and_2009(evaluate: Evaluate) -> None:
    """2008: ``d=xml.results.layout(di)`` walks the file; the manual of 2009 ranks by confidence."""
    lines = joined(given(WRONG, 1, score=0.1), given(TWO, 1, score=0.9))
    by_file = evaluate("voc2008", [lines], [given(TWO, 1)])
    assert by_file.curves[0].precision.tolist() == [0, 1 / 2]
    for name in ("voc2009", "voc2009_exact_tenths", "voc2009_matlab_colon"):
        ranked = evaluate(name, [lines], [given(TWO, 1)])
        assert ranked.curves[0].precision.tolist() == [1, 1 / 2]
        again = evaluate(name.replace("voc2009", "voc2009_file_order"), [lines], [given(TWO, 1)])
        assert again.curves[0].precision.tolist() == [0, 1 / 2]


@each_layouter
def test_a_part_has_no_second_choice(evaluate: Evaluate) -> None:
    """2010: ``ovmax>=minoverlap && ~gtd(jmax)``: the best true part alone, the first of equals."""
    true_hands: list[Part] = [(HAND, [1.0, 1, 10, 10]), (HAND, [1.0, 1, 10, 10])]
    hands: list[Part] = [(HAND, [1.0, 1, 10, 10]), (HAND, [1.0, 1, 10, 11])]
    result = evaluate("voc2010", [given(hands, 1, score=0.5)], [given(true_hands, 1)])
    assert result.true_positives.tolist() == [0, 1, 0]
    assert result.false_positives.tolist() == [0, 1, 0]
    assert result.to_dict()["AP/hand"] == 0.5


@each_layouter
def test_infinite_confidences_of_layouts(evaluate: Evaluate) -> None:
    """``sort(-str2double({...confidence}))``: Inf comes first, -Inf last; NaN is refused."""
    lines = joined(given(WRONG, 1, score=-math.inf), given(TWO, 1, score=math.inf))
    result = evaluate("voc2009", [lines], [given(TWO, 1)])
    assert result.curves[0].precision.tolist() == [1, 1 / 2]
    assert result.curves[0].scores.tolist() == [math.inf, -math.inf]
    with pytest.raises(InputError, match="NaN"):
        evaluate("voc2009", [given(TWO, 1, score=math.nan)], [given(TWO, 1)])
