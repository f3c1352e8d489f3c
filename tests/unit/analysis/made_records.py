"""Stand-in for ``metric.records()``, made by plain loops."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import torch

from torch_vocmetrics.lanes import BITS, Lanes
from torch_vocmetrics.reference.judged import judge


def made_records(rules, problem, diagnostics=True):
    lanes = Lanes.of(rules)
    lane_list = [(t, a.name) for a in rules.area_ranges for t in rules.iou_thresholds]
    judged = [
        judge(rules, *problem[:2], iou_threshold=t, area=a, **problem.kwargs) for t, a in lane_list
    ]
    first = judged[0]
    objs = first.objects
    gt_at = {(o.image, o.row): i for i, o in enumerate(objs)}
    dets = sorted(first.detections, key=lambda d: (d.label, d.image))  # stable: falling score
    at = {(d.image, d.row): i for i, d in enumerate(dets)}
    n, m, w = len(dets), len(objs), lanes.words
    counted = torch.zeros(m, w, dtype=torch.int64)
    oor = torch.zeros(n, w, dtype=torch.int64)
    match = defaultdict(lambda: [0.0, [0] * w, [0] * w])
    for lane, j in enumerate(judged):
        word, bit = divmod(lane, BITS)
        for o in j.objects:
            counted[gt_at[o.image, o.row], word] |= o.counted << bit
        for d in j.detections:
            i = at[d.image, d.row]
            if d.ground_truth < 0:
                oor[i, word] |= d.ignored << bit
            else:
                entry = match[i, gt_at[d.image, d.ground_truth]]
                entry[0] = d.overlap
                entry[1][word] |= d.true_positive << bit
                entry[2][word] |= d.ignored << bit
    keys = sorted(match)
    ids = (
        [g["image_id"] for g in problem.ground_truths]
        if all("image_id" in g for g in problem.ground_truths)
        else None
    )
    if ids is not None:
        ids = tuple(sorted(i if not isinstance(i, torch.Tensor) else int(i) for i in ids))
    det = lambda f, t: torch.tensor([f(d) for d in dets], dtype=t)  # noqa: E731
    obj = lambda f, t: torch.tensor([f(d) for d in objs], dtype=t)  # noqa: E731
    words = lambda k: torch.tensor([match[x][k] for x in keys], dtype=torch.int64).reshape(-1, w)  # noqa: E731
    best = lambda d, g: gt_at[d.image, g] if g >= 0 else -1  # noqa: E731
    r = SimpleNamespace(
        protocol=rules,
        class_names=first.class_names,
        image_ids=ids,
        lanes=tuple(SimpleNamespace(area=a, iou_threshold=t) for t, a in lane_list),
        lane_index=lambda iou_threshold, area=None: lane_list.index(
            (iou_threshold, area or rules.headline_area)
        ),
        images=SimpleNamespace(
            height=torch.full((first.num_images,), -1), width=torch.full((first.num_images,), -1)
        ),
        ground_truths=SimpleNamespace(
            image=obj(lambda o: o.image, torch.int32),
            label=obj(lambda o: o.label, torch.int32),
            area=obj(lambda o: o.area, torch.float64),
            counted=counted,
            index=obj(lambda o: o.row, torch.int64),
        ),
        detections=SimpleNamespace(
            image=det(lambda d: d.image, torch.int32),
            label=det(lambda d: d.label, torch.int64),
            score=det(lambda d: d.score, torch.float64),
            out_of_range=oor,
            index=det(lambda d: d.row, torch.int32) if diagnostics else None,
            best_overlap=det(lambda d: d.own, torch.float32) if diagnostics else None,
            best_ground_truth=det(lambda d: best(d, d.own_object), torch.int64)
            if diagnostics
            else None,
            best_other_overlap=det(lambda d: d.other, torch.float32) if diagnostics else None,
            best_other_ground_truth=det(lambda d: best(d, d.other_object), torch.int64)
            if diagnostics
            else None,
        ),
        matches=SimpleNamespace(
            detection=torch.tensor([k[0] for k in keys], dtype=torch.int64),
            ground_truth=torch.tensor([k[1] for k in keys], dtype=torch.int64),
            overlap=torch.tensor([match[k][0] for k in keys], dtype=torch.float32),
            true_positive=words(1),
            ignored=words(2),
        ),
    )

    def outcomes(lane):
        place = divmod(lane, BITS)
        bit = lambda t: (t[:, place[0]] >> place[1]) & 1 == 1  # noqa: E731
        tp = torch.zeros(n, dtype=torch.bool)
        ignored = bit(oor).clone()
        gt = torch.full((n,), -1)
        hit, ign = bit(r.matches.true_positive), bit(r.matches.ignored)
        tp[r.matches.detection[hit]] = True
        ignored[r.matches.detection[hit]] = False
        ignored[r.matches.detection[ign]] = True
        either = hit | ign
        gt[r.matches.detection[either]] = r.matches.ground_truth[either]
        return SimpleNamespace(true_positive=tp, ignored=ignored, ground_truth=gt)

    r.outcomes = outcomes
    r.counted = lambda lane: (counted[:, lane // BITS] >> lane % BITS) & 1 == 1
    return r
