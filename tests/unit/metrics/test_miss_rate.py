"""LogAverageMissRate: inputs, results, protocols; the assignment behind the Jaccard index."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
import torch
from helpers.pedestrian_generator import random_problem
from helpers.pedestrians import differences, evaluate_by_metric

from torch_vocmetrics import (
    InputError,
    LogAverageMissRate,
    ProtocolError,
    StateError,
    VocMetricsWarning,
    load_protocol,
)
from torch_vocmetrics.curves.miss_rate import FppiCurve, jaccard_index, mean_precision
from torch_vocmetrics.examples import filtering_study
from torch_vocmetrics.matching import fused
from torch_vocmetrics.matching.jaccard import Assignment
from torch_vocmetrics.matching.shapes import shapes_of
from torch_vocmetrics.protocols import FppiReferences, MissRateProtocol, protocol_file
from torch_vocmetrics.results import CrowdMissRateResult, reading_index, unread_miss_rate

PERSON = [[100.0, 100.0, 41.0, 100.0]]


def rules(name: str) -> MissRateProtocol:
    return load_protocol(f"miss_rate/{name}", MissRateProtocol)


def one(boxes: list[list[float]], scores: list[float] | None = None, **more: object) -> dict:
    rows = {"boxes": torch.tensor(boxes).reshape(-1, 4), "labels": torch.zeros(len(boxes)).long()}
    return rows | ({} if scores is None else {"scores": torch.tensor(scores)}) | more


def metric(name: str = "caltech2012") -> LogAverageMissRate:
    return LogAverageMissRate(name, box_format="xywh")


def test_half_found() -> None:
    result = metric().update([one(PERSON, [0.9]), one([], [])], [one(PERSON)] * 2).compute()
    assert result.headline == 0.5
    assert result.to_dict()["LAMR/Reasonable"] == 0.5
    assert result.num_images == 2
    assert result.num_positives[0] == 2
    assert result.curves[0].miss_rate.tolist() == [0.5]
    assert "LAMR/Reasonable=0.5000" in repr(result)
    assert json.loads(result.to_json())["LAMR/Scale=far"] == 1.0  # nothing there, nothing found


def test_every_image_counts() -> None:
    """Empty images lower the false positives per image."""
    false = one([[400.0, 100.0, 41.0, 100.0], *PERSON], [0.9, 0.8])
    few = metric().update([false], [one(PERSON)]).compute()
    empty = [one([], [])] * 99
    many = metric().update([false, *empty], [one(PERSON), *([one([])] * 99)]).compute()
    assert few.curves[0].fppi.tolist() == [1.0, 1.0]
    assert many.curves[0].fppi.tolist() == [0.01, 0.01]
    assert few.miss_rate_at(0.5) == 1.0
    assert many.miss_rate_at(0.5) == 0.0
    assert many.headline == 0.0
    assert few.headline == 0.0  # found at 1 FPPI only, and one miss rate of 0 makes it 0
    assert json.loads(few.to_json())["LAMR/Occ=heavy"] is None  # a false positive, no object


def test_no_update_and_no_images() -> None:
    with pytest.warns(VocMetricsWarning, match="before update"):
        result = metric().compute()
    assert math.isnan(result.headline)
    assert math.isnan(result.miss_rate_at(0.1))
    empty = metric("crowdhuman2018").update([], []).compute()
    assert isinstance(empty, CrowdMissRateResult)
    assert all(math.isnan(value) for value in empty.to_dict().values())


def test_miss_rate_at_reads_as_the_protocol() -> None:
    rows = one([[400.0, 100.0, 41.0, 100.0], *PERSON], [0.9, 0.8])
    values = {}
    for name in ("caltech2012", "citypersons2017", "crowdhuman2018"):
        target = one(PERSON, None, image_size=(480, 640))
        values[name] = metric(name).update([rows], [target]).compute().miss_rate_at(0.5)
    assert values == {"caltech2012": 1.0, "citypersons2017": 0.0, "crowdhuman2018": 1.0}
    with pytest.warns(VocMetricsWarning, match="Reasonable"):
        older = metric("caltech2012_v300").update([rows], [one(PERSON)]).compute()
    assert math.isnan(older.miss_rate_at(0.5, "Reasonable"))
    assert older.miss_rate_at(1.0, "Reasonable") == 0.0
    with pytest.raises(InputError, match="no subset 'reasonable'"):
        older.miss_rate_at(0.5, "reasonable")


@pytest.mark.parametrize(
    ("rule", "places"),
    [
        ("last_from_zero", [None, 1, 2]),
        ("last_or_final", [2, 1, 2]),
        ("last_or_undefined", [None, 1, 2]),
        ("first_or_final", [0, 0, 2]),
    ],
)
def test_reading_place(rule: str, places: list[int | None]) -> None:
    fppi = np.array([0.5, 0.5, 1.0])
    assert [reading_index(fppi, at, rule) for at in (0.1, 0.5, 9.0)] == places
    assert reading_index(fppi[:0], 0.5, rule) is None


def test_miss_rates_that_no_point_gives() -> None:
    """CrowdHuman's eval_MR has no point without detections; evalRes of bbGt.m starts at recall 0.

    Under dbEval.m 3.0.0 a curve that begins above the reference has an empty ``max(find(...))``.
    """
    some, none = np.array([0.5]), np.array([])
    assert math.isnan(unread_miss_rate(none, "first_or_final"))
    for rule in ("last_from_zero", "last_or_final", "last_or_undefined"):
        assert unread_miss_rate(none, rule) == 1.0
    assert unread_miss_rate(some, "last_from_zero") == 1.0
    assert math.isnan(unread_miss_rate(some, "last_or_undefined"))


def test_mean_precision_at_recall_levels() -> None:
    """compPR of bbGt.m: ``find(xs >= ref, 1)``, so that a level may be reached exactly."""
    empty = torch.zeros(0)
    recall, precision = np.array([0.5, 1.0]), np.array([1.0, 0.25])
    curve = FppiCurve(recall, recall, precision, empty, np.zeros(0, dtype=np.int64))
    assert mean_precision(curve, (0.25, 0.5, 0.75, 1.0)) == (1 + 1 + 0.25 + 0.25) / 4
    assert mean_precision(curve._replace(recall=recall / 2), (0.25, 0.75)) == 0.5


def test_jaccard_index_of_images_that_hold_anything() -> None:
    """``k / (m + n - k + epsilon)``: 1 of 2 and 2, 0 of 1 and 0; an empty image is left out."""
    counts = np.array([[[1, 2, 2]], [[0, 0, 0]], [[0, 1, 0]]], dtype=np.int32)
    assert jaccard_index(counts, 1.0).tolist() == [(1 / 4 + 0 / 2) / 2]
    assert math.isnan(jaccard_index(counts[1:2], 1.0)[0])


def test_sizes_are_needed_where_boxes_are_clipped() -> None:
    made = metric("crowdhuman2018")
    with pytest.raises(InputError, match=r"image_size.*give \(height, width\)"):
        made.update([one(PERSON, [0.5])], [one(PERSON)])
    made.update([one(PERSON, [0.5])], [one(PERSON, None, image_size=(480, 640))])
    assert made.compute().num_images == 1


def test_keys_of_pedestrians_are_checked() -> None:
    with pytest.raises(InputError, match="'vis_ratio' is not known; name it 'visibility'"):
        metric().update([one(PERSON, [0.5])], [one(PERSON, None, vis_ratio=torch.ones(1))])
    with pytest.raises(InputError, match=r"key 'visible_boxes'.*one entry per box"):
        metric().update([one(PERSON, [0.5])], [one(PERSON, None, visible_boxes=torch.ones(2, 4))])
    with pytest.raises(InputError, match="label is unknown"):
        metric().update([one(PERSON, [0.5])], [one(PERSON) | {"labels": torch.tensor([1])}])
    other = LogAverageMissRate("caltech2012", label_id=1, box_format="xywh")
    true = one(PERSON) | {"labels": torch.tensor([1])}
    found = one(PERSON, [0.5]) | {"labels": torch.tensor([1])}
    assert other.update([found], [true]).compute().headline == 0.0


def test_packed_rows_and_mixed_columns() -> None:
    """Packed tensors give the same; images without a column are unoccluded and of level 0."""
    boxes = torch.tensor(PERSON * 2)
    targets = [one(PERSON, None, visibility=torch.tensor([0.5])), one(PERSON)]
    listed = metric().update([one([], [])] * 2, targets).compute()
    named = dict(zip(listed.subset_names, listed.num_positives.tolist(), strict=True))
    assert (named["Reasonable"], named["Occ=none"], named["Occ=heavy"]) == (1, 1, 1)
    packed = metric().update(
        {"boxes": boxes[:0], "scores": torch.zeros(0), "labels": [], "counts": [0, 0]},
        {
            "boxes": boxes,
            "labels": [0, 0],
            "counts": [1, 1],
            "visibility": torch.tensor([0.5, math.nan]),
        },
    )
    assert packed.compute().num_positives.tolist() == listed.num_positives.tolist()
    split = metric().update([one([], [])], targets[:1]).update([one([], [])], targets[1:])
    assert split.compute().num_positives.tolist() == listed.num_positives.tolist()


def test_subsets_by_position_need_the_whole_set() -> None:
    with pytest.warns(VocMetricsWarning, match="Reasonable-day.*2252 images, but 1 came"):
        result = metric("kaist").update([one(PERSON, [0.5])], [one(PERSON)]).compute()
    values = result.to_dict()
    assert values["LAMR/Reasonable-all"] == 0.0
    assert math.isnan(values["LAMR/Reasonable-day"])


def test_images_of_more_objects_than_the_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of CUDA move to the host."""
    monkeypatch.setattr(fused, "MOST_OBJECTS", 0)
    result = metric().update([one(PERSON, [0.9]), one([], [])], [one(PERSON)] * 2).compute()
    assert result.headline == 0.5


def test_typical_aspect_ratios_are_closer_than_the_bound() -> None:
    """dbEval.m compares by ``<``: at .75 - .5 = .25 a person is neither typical nor atypical."""
    base = rules("caltech2012")
    named = {subset.name: subset for subset in base.subsets}
    subsets = (
        named["Ar=typical"]._replace(aspect_ratio=0.25),
        named["Ar=atypical"]._replace(aspect_ratio=-0.25),
    )
    made = dataclasses.replace(base, standard_aspect_ratio=0.5, subsets=subsets)
    for width, counts in ((74.0, [1, 0]), (75.0, [0, 0]), (76.0, [0, 1])):
        target = one([[100.0, 100.0, width, 100.0]])
        counted = LogAverageMissRate(made, box_format="xywh").update([one([], [])], [target])
        assert counted.compute().num_positives.tolist() == counts


def test_boxes_are_clipped_to_the_image() -> None:
    """CrowdDet clip_all_boader: near corners to 0 .. side - 1, far ones to 0 .. side."""
    boxes = torch.tensor([[-30.0, 5.0, 20.0, 200.0], [90.0, -9.0, 30.0, 4.0], [120.0, 0, 9.0, 9.0]])
    image, sizes = torch.zeros(3, dtype=torch.int64), torch.tensor([[50, 100]])
    shapes = shapes_of(boxes, "xywh", image, sizes)
    corners = torch.stack([shapes.x1, shapes.y1, shapes.x2, shapes.y2], dim=1)
    assert corners.tolist() == [[0, 5, 0, 50], [90, 0, 100, 0], [99, 0, 100, 9]]


def test_states_of_other_rules_are_refused() -> None:
    with pytest.raises(StateError, match="different protocols"):
        metric().merge(metric("caltech2012_no_border"))


def test_another_range_of_references() -> None:
    """[1e-4, 1] in place of [1e-2, 1]: a variant by ``dataclasses.replace``."""
    base = rules("caltech2012")
    levels = tuple(float(10**exponent) for exponent in np.linspace(-4, 0, 9))
    wide = dataclasses.replace(base, references=(FppiReferences("1e-2", levels),))
    assert wide.fingerprint != base.fingerprint
    false = one([*PERSON, [400.0, 100.0, 41.0, 100.0]], [0.8, 0.9])
    found = [false] + [one([], [])] * 999
    true = [one(PERSON)] * 2 + [one([])] * 998
    narrow, other = (
        LogAverageMissRate(p, box_format="xywh").update(found, true).compute() for p in (base, wide)
    )
    assert narrow.headline == 0.5
    # One false positive in 1,000 images comes first: below 1e-3 nothing is found.
    assert other.miss_rate[0].tolist() == [1, 1, *[0.5] * 7]


def test_mistakes_in_rules_are_named() -> None:
    base = rules("caltech2012")
    subset = base.subsets[0]
    for change, words in (
        ({"subsets": ()}, "subsets must be at least one table"),
        ({"subsets": (subset, subset)}, "subsets must have distinct names"),
        ({"subsets": (subset._replace(height=(5, 1)),)}, "height must be"),
        ({"subsets": (subset._replace(iou_threshold=2.0),)}, "iou_threshold must be in"),
        ({"subsets": (subset._replace(filter_expansion=0.5),)}, "filter_expansion must be"),
        ({"subsets": (subset._replace(references="x"),)}, "unknown references 'x'"),
        ({"subsets": (subset._replace(images=((0, 5), (3, 9))),)}, "must not overlap"),
        ({"max_detections": (1, 2)}, "one limit or none"),
        ({"standard_aspect_ratio": 0.0}, "standard_aspect_ratio must be above 0"),
        ({"clipping": "image"}, "both clipped and standardised"),
        ({"bounds": (1.0, 2.0)}, "bounds must be"),
        ({"references": (FppiReferences("a", (1.0, 0.5)),)}, "references must be"),
    ):
        with pytest.raises(ProtocolError, match=words):
            dataclasses.replace(base, **change)


def test_protocols_differ_where_the_sources_do() -> None:
    base, older = rules("caltech2012"), rules("caltech2012_v300")
    changed = {key for key in base.rules if base.rules[key] != older.rules[key]}
    assert changed == {"curve_reading", "positives_floor"}
    border = rules("caltech2012_no_border")
    assert {key for key in base.rules if base.rules[key] != border.rules[key]} == {"bounds"}
    sources = protocol_file("miss_rate/caltech2012_v300").sources
    assert "3.0.0" in sources["curve_reading"]


def test_assignment_is_the_best_there_is() -> None:
    """Against all ways of pairing, after every row that joins."""
    rng = np.random.default_rng(7)
    for _ in range(300):
        rows, places = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        overlap = rng.choice([0.0, 0.55, 0.6, 0.75, 0.9], (rows, places))
        assignment = Assignment()
        for row in range(rows):
            edges = [(g, float(v)) for g, v in enumerate(overlap[row]) if v]
            assignment.add(row, edges)
            pairs = assignment.pairs()
            assert len(set(pairs.values())) == len(pairs)
            assert all(overlap[d, g] > 0 for d, g in pairs.items())
            total = sum(overlap[d, g] for d, g in pairs.items())
            joined = range(row + 1)
            best = max(
                sum(overlap[d, g] for d, g in zip(chosen, order, strict=True))
                for size in range(min(row + 1, places) + 1)
                for chosen in itertools.combinations(joined, size)
                for order in itertools.permutations(range(places), size)
            )
            assert abs(total - best) < 1e-12


@pytest.mark.filterwarnings("ignore::torch_vocmetrics.VocMetricsWarning")
@pytest.mark.parametrize("name", ["caltech2012", "kaist", "crowdhuman2018"])
def test_no_factory_forgets_its_device(name: str) -> None:
    """Tensors made without a device would be made on the default one, here without values."""
    protocol = rules(name)
    for seed in range(3, 9):
        problem = random_problem(seed, protocol)
        plain = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
        with torch.device("meta"):
            other = evaluate_by_metric(protocol, *problem[:2], **problem.kwargs)
        assert not differences(plain, other), f"seed {seed}"


@pytest.mark.slow
def test_filtering_study_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert filtering_study.main(["--frames", "20"]) == 0
    out = capsys.readouterr().out
    assert "range-tuned" in out
    assert "343,200 boxes on 20 frames" in out
